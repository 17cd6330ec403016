"""The same heads on both engines, and on MLX heads that were trained for llama.cpp."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

from localspec.interfaces.backend import Row
from localspec_llamacpp import backend as llamacpp
from tests import engines, tiny
from tests.backends import converted_heads as converted
from tests.backends.gguf_copies import copied
from tests.backends.test_llamacpp_trained import at_once, rejected, rightness, truncated
from tests.backends.test_llamacpp_trained import copied as copying
from tests.backends.test_llamacpp_trained_beside import SURE
from tests.backends.test_mlx_heads import loaded, rolled
from tests.backends.trained.packed import unpacked
from tests.gguf_to_mlx import convert

TEXTS = [np.random.default_rng(at).integers(0, 384, 20 + at).astype(np.int32) for at in range(12)]


def draft_the_same(ours, theirs):
    for text in TEXTS:
        drafts = []
        for model in (ours, theirs):
            model.truncate(0, 0)
            model.forward([Row(0, text[:-1])])
            drafts.append(rolled(model, text=text).tokens.tolist())
        assert drafts[0] == drafts[1]
        assert len(drafts[0]) == 4


@pytest.mark.parametrize("name", ["llama-eagle3", *converted.LATER])
def test_a_head_beside_its_model_drafts_the_same_on_both_engines(name, tmp_path):
    path, beside = engines.with_head(name)
    target = convert(path, tmp_path / "made")
    with closing(engines.target(name)) as theirs:
        tokens = theirs.vocabulary
        if name in converted.LATER:
            head = converted.dflash(beside, tmp_path / "head", tokens, converted.LATER[name])
        else:
            head = converted.eagle3(beside, tmp_path / "head", tokens)
        with closing(loaded(target, head)) as ours:
            draft_the_same(ours, theirs)


def looking_near(path, target):
    """Let a head's attention prefer tokens that are alike: of the first, one engine reads more."""
    look = tiny.WIDTH**-0.5 * np.random.default_rng(9).standard_normal((32, 64), dtype=np.float32)
    gate = converted.HeldHead(path).tensors["blk.3.attn_q"].reshape(2, 2, 32, 64)[:, 1]
    queries = np.stack([np.stack([look, look]), gate], axis=1).reshape(128, 64)
    tensors = {"blk.3.attn_k.weight": look, "blk.3.attn_q.weight": queries}
    return copied(path, target, tensors=tensors)


def test_a_head_inside_its_model_drafts_the_same_on_both_engines(tmp_path):
    path = looking_near(engines.tiny("qwen35-last-mtp"), tmp_path / "made.gguf")
    options = engines.roomy(replace(engines.OPTIONS, head=path))
    folder = converted.qwen35(path, tmp_path / "made")
    with closing(llamacpp.load(path, options)) as theirs, closing(loaded(folder)) as ours:
        one, other = (model.forward([Row(0, TEXTS[0])])[0] for model in (ours, theirs))
        assert np.abs(one - other).max() < 0.05
        draft_the_same(ours, theirs)


@pytest.mark.parametrize("kind", SURE)
def test_heads_that_were_trained_are_right_on_mlx_however_a_text_came_about(kind, tmp_path):
    trunk, beside = (unpacked(name, tmp_path) for name in ("trunk", kind))
    target = convert(trunk, tmp_path / "trunk")
    write = {"eagle3": converted.eagle3, "dflash": converted.dflash}[kind]
    head = write(beside, tmp_path / "head", tokens=384)
    with closing(loaded(target, head)) as model:
        for way in (at_once, truncated, copying, rejected):
            assert (rightness(model, way) > SURE[kind]).all()

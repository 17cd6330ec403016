"""Models that were made for bfloat16, computed in float16."""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlx_lm")

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Options, Roll, Row
from localspec_mlx import backend as mlx
from localspec_mlx.halves import convert
from localspec_mlx.loading import load_weights
from tests import tiny_mlx
from tests.backends.mlx_folders import rewritten, written

HALF = Options(slots=1, context=256, compute="float16")
TEXT = tokens_of([300, 310, 320, 330])


def brain_floats(model: nn.Module) -> None:
    model.set_dtype(mx.bfloat16)


def made(folder: Path, change=brain_floats) -> Path:
    return rewritten(written(folder, "llama"), change)


def kinds(model: nn.Module) -> set[mx.Dtype]:
    return {array.dtype for _, array in tree_flatten(model.parameters())}


def test_all_brain_floats_become_halves_and_logits_stay_about_the_same(tmp_path):
    folder = made(tmp_path / "tiny")

    def logits(options):
        with closing(mlx.load(folder, options)) as model:
            notices = model.take_notices(), model.take_notices()
            return model.forward([Row(0, TEXT, 4)])[0].copy(), notices

    (half, notices), (brain, silent) = logits(HALF), logits(Options(slots=1, context=256))
    assert (half != brain).any()
    assert np.abs(half - brain).mean() < 0.05 * brain.std()
    assert silent == ([], [])
    [notice], none = notices
    assert notice.startswith("tiny computes in float16")
    assert "localspec prove" in notice
    assert none == []


def test_weights_that_are_quantised_get_scales_of_that_kind(tmp_path):
    def change(model):
        model.set_dtype(mx.bfloat16)
        nn.quantize(model, group_size=32, bits=4)

    folder = written(tmp_path / "tiny", "llama", intermediate_size=128)
    rewritten(folder, change, quantization={"group_size": 32, "bits": 4})
    model = load_weights(folder)
    assert convert(model, "tiny") > 0
    assert kinds(model) == {mx.uint32, mx.float16}


def test_the_two_kinds_of_all_weights_are_never_in_memory_together(tmp_path):
    model = load_weights(made(tmp_path / "tiny"))
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    convert(model, "tiny")
    size = mx.get_active_memory() - before
    assert size > 200_000
    assert mx.get_peak_memory() - before < 1.5 * size


def test_a_weight_beyond_what_halves_hold_is_named(tmp_path):
    def change(model):
        model.set_dtype(mx.bfloat16)
        model.model.norm.weight[3] = 70_000.0

    folder = made(tmp_path / "tiny", change=change)
    refusal = r"model\.norm\.weight of tiny has 70,144, and float16 ends at 65,504: omit --compute"
    with pytest.raises(UsageError, match=refusal):
        mlx.load(folder, HALF)


def test_a_model_whose_numbers_grow_beyond_halves_is_refused(tmp_path):
    def change(model):
        model.set_dtype(mx.bfloat16)
        for layer in model.model.layers:
            layer.mlp.down_proj.weight *= 30_000.0

    folder = made(tmp_path / "tiny", change=change)
    with closing(mlx.load(folder, Options(slots=1, context=256))):
        pass
    with pytest.raises(UsageError, match="numbers of tiny overflow in float16: omit --compute"):
        mlx.load(folder, HALF)


def test_a_model_that_is_in_other_numbers_already_is_left_alone(tmp_path):
    model = load_weights(written(tmp_path / "tiny", "llama"))
    assert convert(model, "tiny") == 0
    assert kinds(model) == {mx.float32}


def test_a_head_computes_as_its_target_does(tmp_path):
    folder = tmp_path / "made"
    head = tiny_mlx.write_with_head(folder, "qwen3", "eagle3")
    tiny_mlx.store_in_16_bits(folder)
    for compute, kind in (("auto", mx.bfloat16), ("float16", mx.float16)):
        options = Options(slots=1, context=256, compute=compute, head=head)
        with closing(mlx.load(folder, options)) as model:
            model.forward([Row(0, TEXT[:-1])])
            model.head.roll([Roll(Row(0, TEXT[-1:]), 2, Sampler(GREEDY, 0, TEXT), len(TEXT))])
            states = [array.dtype for array in model._head.arrays([0]) if array.ndim == 4]
            assert set(states) == {kind}


def test_llama_cpp_refuses_the_option():
    from localspec_llamacpp import backend as llamacpp
    from tests import engines

    with pytest.raises(UsageError, match=r"compute is for MLX; llama\.cpp computes in numbers"):
        llamacpp.load(engines.tiny("llama"), HALF)
    with pytest.raises(UsageError, match="compute is 'bf16', known: auto, float16"):
        Options(compute="bf16")

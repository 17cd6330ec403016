"""What a head on MLX takes of memory once its slots are full, beside what was planned for it."""

from __future__ import annotations

import gc
import shutil
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import MAX_HEAD_LAG, Options, Roll, Row
from localspec_mlx import backend as mlx
from tests import tiny_mlx

OPTIONS = Options(slots=2, context=1024, batch=64, tentative=8)
WIDE = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "head_dim": 64,
    "num_key_value_heads": 2,
    "global_head_dim": 64,
}
KINDS = {**tiny_mlx.WITH_HEADS, "qwen3_5-dspark": "qwen3_5", "qwen3_5-dflash2": "qwen3_5"}
TOLERANCE, SOME = 0.06, 1 << 14


def active():
    gc.collect()
    mx.clear_cache()
    return mx.get_active_memory()


def fill(model):
    """Fill two slots, of whose last tokens a head has read none, as it may be so far behind."""
    texts = np.random.default_rng(0).integers(300, 380, (2, OPTIONS.context)).astype(np.int32)
    end = OPTIONS.context - MAX_HEAD_LAG - 1
    for at in range(0, end, 32):
        model.forward([Row(slot, text[at : min(at + 32, end)]) for slot, text in enumerate(texts)])
    if model.head:
        newest = [(slot, text[: end + 1]) for slot, text in enumerate(texts)]
        model.head.roll([Roll(Row(s, t[-1:]), 4, Sampler(GREEDY, 0, t), len(t)) for s, t in newest])
    for at in range(end, end + MAX_HEAD_LAG):
        model.forward([Row(slot, text[at : at + 1]) for slot, text in enumerate(texts)])


def held(folder, head):
    before = active()
    with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
        fill(model)
        return active() - before


@pytest.mark.long
@pytest.mark.parametrize(("name", "architecture"), KINDS.items())
def test_a_head_takes_what_was_planned_for_it(name, architecture, tmp_path):
    kind, folder = name.rpartition("-")[2], tmp_path / "made"
    head = tiny_mlx.write_with_head(folder, architecture, kind, **WIDE)
    if name.startswith("qwen3_5-d"):  # whose layers are as wide as their target's
        shutil.rmtree(head)
        tiny_mlx.WRITERS[kind](folder, head, **WIDE)
    tiny_mlx.store_in_16_bits(folder)
    with mlx.rehearse(folder) as rehearsal:
        planned = rehearsal.needs(replace(OPTIONS, head=head)).head
    assert held(folder, head) - held(folder, None) == pytest.approx(planned, TOLERANCE, SOME)

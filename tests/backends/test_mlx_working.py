"""The scores of attention in MLX's plan for a GPU, by the widths of heads."""

from __future__ import annotations

import gc
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")

from localspec.interfaces.backend import Footprint, Options
from localspec_mlx import backend as mlx
from localspec_mlx.devices import kept_buffers
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.working import has_matrix_units, score_bytes
from tests import engines
from tests.backends.mlx_folders import written

LONG = 32_768
# Heads of 256 in the layers that keep every token, as Qwen3.5 and Qwen3.6 27B have them.
HYBRID = Footprint(
    Path("model"),
    "qwen3_5",
    "27B",
    "4-bit",
    *(0, 0, 64, 24, 4, 5120, 248_320, 262_144),
    tokenizer="bpe",
    chat_template=None,
    attention_layers=16,
    head_width=256,
)
DENSE = replace(HYBRID, architecture="qwen3", head_width=128)
# Global layers of 512, windows of 1,024 with heads of 256.
GEMMA = replace(HYBRID, heads=16, head_width=512, window=1024, window_layers=40)


def scores(f, *, matrix_units=False, **wishes):
    return score_bytes(f, Options(**wishes), LONG, matrix_units=matrix_units)


def test_heads_that_a_kernel_takes_need_no_scores():
    assert scores(DENSE) == scores(replace(DENSE, head_width=64)) == 0
    assert scores(replace(DENSE, attention_layers=0, head_width=0)) == 0


def test_wide_heads_and_quantised_keys_write_scores_down():
    piece = 24 * 512 * LONG * 4
    assert 1.5e9 < piece < 1.7e9
    assert scores(HYBRID) == scores(replace(DENSE, head_width=192)) == piece
    assert scores(DENSE, kv_type="q8_0") == piece
    assert scores(HYBRID, batch=2048) == 4 * piece
    assert scores(replace(HYBRID, head_width=0)) == piece  # of a cache that was not understood


def test_scores_in_windows_are_no_longer_than_the_window():
    assert scores(GEMMA) == 16 * 512 * LONG * 4
    assert scores(replace(GEMMA, attention_layers=0)) == 16 * 512 * (1024 + 512) * 4


def test_matrix_units_take_heads_of_256_from_1024_tokens_on():
    late = scores(HYBRID, matrix_units=True, batch=2048)
    assert late == scores(HYBRID, matrix_units=True, batch=1024) == 24 * 1023 * LONG * 4
    assert scores(HYBRID, matrix_units=True, batch=512) == scores(HYBRID)
    assert scores(GEMMA, matrix_units=True) == scores(GEMMA)
    quantised = scores(HYBRID, matrix_units=True, batch=2048, kv_type="q8_0")
    assert quantised == scores(HYBRID, batch=2048)


@pytest.mark.parametrize(
    ("architecture", "macos", "has"),
    [
        ("applegpu_g13g", "26.4", False),
        ("applegpu_g16s", "26.4", False),
        ("applegpu_g17s", "26.2", True),
        ("applegpu_g17s", "26.1", False),
        ("applegpu_g17s", "", False),
        ("air64_v26", "26.2", False),
        ("x86_64", "26.2", False),
    ],
)
def test_matrix_units_are_known_by_the_generation_and_the_system(architecture, macos, has):
    assert has_matrix_units({"architecture": architecture}, macos) == has


def test_a_folder_tells_the_widths_of_its_heads(tmp_path: Path):
    plain = inspect(written(tmp_path / "plain", "llama"))
    wide = inspect(written(tmp_path / "wide", "gemma3_text", head_dim=64))
    assert (plain.head_width, wide.head_width) == (32, 64)
    assert inspect(written(tmp_path / "states", "mamba2")).head_width == 0


def test_mlx_keeps_as_many_freed_bytes_as_its_models_were_planned_to_work_in():
    gc.collect()
    before = kept_buffers()
    options = Options(context=512)
    folder = engines.tiny_folder("llama")
    with mlx.rehearse(folder) as rehearsal:
        planned = rehearsal.needs(options).working
    with closing(mlx.load(folder, options)), closing(mlx.load(folder, options)):
        assert kept_buffers() == before + 2 * planned
    gc.collect()
    assert kept_buffers() == before

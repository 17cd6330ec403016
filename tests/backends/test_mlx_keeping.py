"""Footprints say what a slot keeps; mlx-lm's own caches hold exactly that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_lm")

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.keeping import CacheUse, SlotUse
from tests import tiny_mlx
from tests.backends.mlx_folders import CHUNKED, COMPRESSING, OTHERS, rewritten, written

ALL = sorted([*tiny_mlx.ARCHITECTURES, *OTHERS])


def parts(caches: list[Any]) -> Iterator[Any]:
    for cache in caches:
        yield from parts(cache.caches) if type(cache).__name__ == "CacheList" else (cache,)


def kept(folder: Path, tokens: int) -> Counter[str]:
    """Bytes that mlx-lm's own caches hold by their kind, after so many tokens were really run."""
    model, _ = load_model(folder)
    caches = make_prompt_cache(model)
    for start in range(0, tokens, 256):
        mx.eval(model(mx.ones((1, min(256, tokens - start)), mx.int32), cache=caches))
    mx.eval(model(mx.ones((1, 1), mx.int32), cache=caches))
    found: Counter[str] = Counter()
    for cache in parts(caches):
        found[type(cache).__name__] += cache.nbytes
    return found


@pytest.mark.parametrize("architecture", ALL)
def test_a_token_takes_what_it_takes_when_it_is_run(architecture: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", architecture)
    short, long = kept(folder, 255), kept(folder, 511)
    footprint = inspect(folder)
    # The tiny models are of 32 bits, the footprint counts keys and values of 16.
    assert 2 * footprint.kv_bytes_per_token == (long["KVCache"] - short["KVCache"]) / 256
    turning = long["RotatingKVCache"]
    assert 2 * footprint.window * footprint.window_bytes_per_token == turning or not turning
    assert footprint.state_bytes == long["ArraysCache"]
    kinds = {kind for kind, size in long.items() if size}
    assert kinds <= {"KVCache", "RotatingKVCache", "ArraysCache", "ChunkedKVCache"}


@pytest.mark.parametrize("architecture", ["qwen3_5", "mamba2", "lfm2", "falcon_h1", "rwkv7"])
def test_state_is_counted_in_the_bits_it_is_kept_in(architecture: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", architecture)
    wide = inspect(folder)
    rewritten(folder, lambda model: model.set_dtype(mx.bfloat16))
    footprint = inspect(folder)
    assert footprint.state_bytes == kept(folder, 20)["ArraysCache"] < wide.state_bytes
    assert footprint.kv_bytes_per_token == wide.kv_bytes_per_token


def test_chunks_are_windows(tmp_path: Path) -> None:
    footprint = inspect(written(tmp_path / "tiny", "llama4", text_config=CHUNKED))
    assert (footprint.window, footprint.window_bytes_per_token) == (16, 3 * 2 * 2 * 32)
    assert footprint.kv_bytes_per_token == 2 * 2 * 32


def test_layers_that_share_a_window_are_counted_together(tmp_path: Path) -> None:
    footprint = inspect(written(tmp_path / "tiny", "gemma3_text"))
    assert (footprint.window, footprint.window_bytes_per_token) == (16, 2 * 2 * 2 * 32)
    assert footprint.kv_bytes_per_token == 2 * 2 * 32


def test_shorter_windows_count_for_less() -> None:
    use = SlotUse((CacheUse(100, window=8), CacheUse(10, window=3), CacheUse(7)), 0)
    assert (use.window, use.window_bytes, use.token_bytes) == (8, 104, 7)


def test_a_cache_of_unknown_kind_is_known_by_how_it_grows(tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", "deepseek_v41", **COMPRESSING)
    footprint = inspect(folder)
    assert footprint.kv_bytes_per_token == 2 * 32 * 4 + 2 * 32 * 4 // 4
    # A full window in each layer, and up to three tokens of a group that is not full yet.
    assert 3 * 16 * 32 * 4 < footprint.state_bytes <= 3 * 16 * 32 * 4 + 3 * 2 * 32 * 4
    assert footprint.recurrent
    really = kept(folder, 4094)["LayerCache"]
    assert really == footprint.state_bytes + 4095 * footprint.kv_bytes_per_token

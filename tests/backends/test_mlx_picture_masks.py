"""Which positions of a picture see each other, held against masks that are written out."""

from __future__ import annotations

import sys
from contextlib import closing

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec_mlx.folder.pictures import picture_settings
from localspec_mlx.heads.target import body
from localspec_mlx.loading import load_weights
from tests import tiny_mlx_vision
from tests.backends.test_mlx_sight import read, seeing, text_with_picture


class Bare:
    """A cache that holds nothing yet, and says which tokens see which."""

    offset = 0

    def __init__(self, mask: mx.array) -> None:
        self._mask = mask

    def make_mask(self, *_: object, **__: object) -> mx.array:
        return self._mask

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        return keys, values


def read_at_once(folder, text, embeddings):
    """Read a text by mlx-lm's definition alone, with masks written out."""
    model, both_ways = load_weights(folder), picture_settings(folder).both_ways
    shown, places = mx.array(text < 0), mx.arange(len(text))
    queries, keys = places[:, None], places[None]
    caches = []
    for cache in model.make_cache():
        window = getattr(cache, "max_size", 0)
        mask = keys <= queries
        if both_ways == "everywhere" or (window and both_ways == "windows"):
            mask = mask | (shown[:, None] & shown[None])
        caches.append(Bare(mask & (keys > queries - window) if window else mask))
    tokens = mx.array(np.maximum(text, 0))[None]
    states = body(model).embed_tokens(tokens)
    start = int(np.flatnonzero(text < 0)[0])
    states[0, start : start + len(embeddings)] = embeddings
    return np.array(model(tokens, cache=caches, input_embeddings=states)[0])


@pytest.mark.parametrize("name", tiny_mlx_vision.SIGHTED)
def test_positions_of_a_picture_see_each_other_in_the_layers_that_are_for_that(name, tmp_path):
    folder = tiny_mlx_vision.write(tmp_path / "tiny", name)
    with closing(seeing(folder)) as model:
        text, [run] = text_with_picture(model)
        ours = read(model, 0, text, outputs=5)
        whole = read_at_once(folder, text, run.embeddings)
    assert np.allclose(ours, whole[-5:], atol=1e-3)

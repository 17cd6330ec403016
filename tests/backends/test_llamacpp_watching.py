"""Inputs of layers that are copied on the way are those that llama.cpp gives."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Options, Row
from localspec_llamacpp import loading
from localspec_llamacpp.bindings.batch import Part
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.bindings.watching import LAYER_INPUTS
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.order import batches
from tests import engines

OPTIONS = Options(slots=3, context=128, batch=32, threads=1, gpu_layers=0)
TEXT = np.arange(70, 90, dtype=np.int32)
LAYERS = (1, 2)


def read(name, layers, parts, *, watched, shared=False):
    """The inputs of some layers of a small model, for each of these parts."""
    options = replace(OPTIONS, shared=shared)
    footprint = loading.inspect(engines.tiny(name))
    weights = ModelWeights(footprint.path, loading.placement(options, footprint))
    form = replace(loading.shape(weights, options, footprint), watched=watched)
    with closing(weights), closing(Context(weights, form)) as context:
        context.tell_before(layers)
        by_slot = {part.sequence: part for part in parts}
        states_of = {}
        rows = [Row(part.sequence, part.tokens) for part in parts]
        for batch in batches(rows, form, context.memory.ids):
            context.decode([by_slot[row.slot] for row in batch])
            states, end = context.states(sum(len(row.tokens) for row in batch))[:], 0
            for row in batch:
                start, end = end, end + len(row.tokens)
                states_of[row.slot] = states[start:end].copy()
        return states_of


@pytest.mark.parametrize("name", [name for name in engines.ARCHITECTURES if name in LAYER_INPUTS])
def test_what_is_copied_is_what_llamacpp_gives(name):
    parts = [Part(0, 0, TEXT, 1)]
    contents = read(name, LAYERS, parts, watched=False)[0]
    assert contents.std() > 0
    np.testing.assert_array_equal(read(name, LAYERS, parts, watched=True)[0], contents)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_what_goes_into_the_first_layer_is_copied_too(name):
    parts = [Part(0, 0, TEXT, 1)]
    contents = read(name, (0,), parts, watched=False)[0]
    np.testing.assert_array_equal(read(name, (0,), parts, watched=True)[0], contents)


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "pooled"])
@pytest.mark.parametrize("name", ["gemma3", "mamba2", "llama"])
def test_rows_of_all_lengths_get_their_own_states(name, shared):
    parts = [Part(0, 0, TEXT[:3], 1), Part(1, 0, TEXT[4:5], 1), Part(2, 0, TEXT[5:14], 1)]
    together = read(name, LAYERS, parts, watched=True, shared=shared)
    for part in parts:
        alone = read(name, LAYERS, [part], watched=True, shared=shared)[part.sequence]
        np.testing.assert_allclose(together[part.sequence], alone, atol=1e-3)


def test_the_input_of_no_layer_is_refused():
    with pytest.raises(ModelFileError, match="nothing that goes into layer 3 alone"):
        read("gemma3", (3,), [Part(0, 0, TEXT, 1)], watched=True)

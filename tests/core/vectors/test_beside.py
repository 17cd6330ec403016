"""A model that continues text, and turns whole texts into vectors by the same weights."""

from __future__ import annotations

import threading
from dataclasses import replace

import llama_cpp
import numpy as np
import pytest

from localspec.base.errors import DoesNotFit, UsageError
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loading import Loading, load
from tests import engines

TEXTS = ["the sea", "the code is the code", "a"]
CODES = {"mean": 1, "cls": 2, "last": 3}


def pooling_loading(pooling: str, **limits: int) -> Loading:
    options = replace(engines.OPTIONS, pooling=pooling)
    return Loading(options, "none", limits=Limits(**limits))


def reference(pooling: str, texts: list[str]) -> np.ndarray:
    """Embed texts by llama-cpp-python's own interface."""
    path = str(engines.tiny("llama"))
    model = llama_cpp.Llama(
        path, embedding=True, pooling_type=CODES[pooling], n_ctx=512, n_threads=1, verbose=False
    )
    try:
        return np.array([model.embed(text, normalize=True) for text in texts], np.float32)
    finally:
        model.close()


@pytest.mark.parametrize("pooling", list(CODES))
def test_its_vectors_are_those_of_llama_cpp_and_its_text_is_the_same(pooling):
    with load(engines.tiny("llama"), loading=pooling_loading("")) as plain:
        assert plain.vectors is None
        expected = plain.generate("the code", temperature=0, max_tokens=12).tokens
    with load(engines.tiny("llama"), loading=pooling_loading(pooling)) as runtime:
        assert runtime.vectors.pooling == pooling
        rows = runtime.vectors.embed(TEXTS)
        assert np.abs(rows - reference(pooling, TEXTS)).max() < 1e-3
        assert runtime.generate("the code", temperature=0, max_tokens=12).tokens == expected


def test_texts_are_read_while_another_one_is_written():
    with load(engines.tiny("llama"), loading=pooling_loading("mean")) as runtime:
        alone = runtime.vectors.embed(TEXTS)
        rows = []

        def read():
            rows.extend(runtime.vectors.embed(TEXTS) for _ in range(20))

        reading = threading.Thread(target=read)
        reading.start()
        replies = {runtime.generate("the code", temperature=0, max_tokens=20).tokens for _ in "abc"}
        reading.join()
        assert len(replies) == 1
        assert all(np.allclose(found, alone, atol=1e-4) for found in rows)


def test_the_plan_counts_the_second_context_and_refuses_what_does_not_fit():
    path = engines.tiny("llama")
    with engines.llamacpp.rehearse(path) as rehearsal:
        alone, beside = (
            rehearsal.needs(replace(engines.OPTIONS, pooling=pooling)) for pooling in ("", "mean")
        )
    assert beside.cache > alone.cache
    assert beside.working > alone.working
    with pytest.raises(DoesNotFit):
        load(path, loading=pooling_loading("mean", budget=alone.total))


def test_what_cannot_pool_is_refused_before_it_is_loaded():
    with pytest.raises(UsageError, match="pooling is 'sum', known: mean, cls, last"):
        pooling_loading("sum")
    if engines.MLX:
        folder = engines.tiny_folder("llama")
        with pytest.raises(UsageError, match="mlx has no embeddings"):
            load(folder, loading=pooling_loading("mean"))

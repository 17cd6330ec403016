"""A model that continues text, and turns whole texts into vectors by the same weights."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from localspec.base.errors import DoesNotFit, UsageError
from localspec.core.vectors.rows import normalise
from localspec.interfaces.backend_spec import BackendSpec
from localspec.running.memory.planner import Limits
from localspec.running.models.engines import Engine
from localspec.running.runtime.loading import Loading, load
from tests import engines

TEXTS = ["the sea", "the code is the code", "a"]
CODES = {"mean": 1, "cls": 2, "last": 3}
MODELS = engines.there("llama", "mlx llama")
MLX = (*engines.MLX, *engines.MLX_HEADS)


def path_of(model: str) -> Path:
    return engines.with_head(model)[0]


def pooling_loading(pooling: str, model: str = "llama", **limits: int) -> Loading:
    threads = None if model in MLX else 1
    options = replace(engines.OPTIONS, pooling=pooling, threads=threads)
    proposer = engines.HEADS.get(model, "none")
    return Loading(options, proposer, limits=Limits(**limits))


def reference(model: str, pooling: str, texts: list[str]) -> np.ndarray:
    """Embed texts without LocalSpec: by llama-cpp-python's own interface, or by mlx-lm."""
    if model in MLX:
        return mlx_reference(path_of(model), pooling, texts)
    llama = llama_cpp.Llama(
        str(path_of(model)),
        embedding=True,
        pooling_type=CODES[pooling],
        n_ctx=512,
        n_threads=1,
        verbose=False,
    )
    try:
        return np.array([llama.embed(text, normalize=True) for text in texts], np.float32)
    finally:
        llama.close()


def mlx_reference(path: Path, pooling: str, texts: list[str]) -> np.ndarray:
    import mlx.core as mx
    from mlx_lm.utils import load as load_by_mlx

    model, tokenizer = load_by_mlx(str(path))
    rows = []
    for text in texts:
        states = np.array(model.model(mx.array([tokenizer.encode(text)]))[0])
        rows.append({"cls": states[0], "mean": states.mean(axis=0), "last": states[-1]}[pooling])
    return normalise(np.array(rows))


@pytest.mark.parametrize("pooling", list(CODES))
@pytest.mark.parametrize("model", MODELS)
def test_its_vectors_are_those_of_its_engine_and_its_text_is_the_same(model, pooling):
    with load(path_of(model), loading=pooling_loading("", model)) as plain:
        assert plain.vectors is None
        expected = plain.generate("the code", temperature=0, max_tokens=12).tokens
    with load(path_of(model), loading=pooling_loading(pooling, model)) as runtime:
        assert runtime.vectors.pooling == pooling
        rows = runtime.vectors.embed(TEXTS)
        assert np.abs(rows - reference(model, pooling, TEXTS)).max() < 1e-3
        assert runtime.generate("the code", temperature=0, max_tokens=12).tokens == expected


@pytest.mark.parametrize("model", [*MODELS, *engines.MLX_HEADS[:1]])
def test_texts_are_read_while_another_one_is_written(model):
    with load(path_of(model), loading=pooling_loading("mean", model)) as runtime:
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


@pytest.mark.parametrize("model", MODELS)
def test_the_plan_counts_the_second_context_and_refuses_what_does_not_fit(model):
    path, options = path_of(model), pooling_loading("", model).options
    engine = engines.mlx if model in MLX else engines.llamacpp
    with engine.rehearse(path) as rehearsal:
        alone, beside = (
            rehearsal.needs(replace(options, pooling=pooling)) for pooling in ("", "mean")
        )
    assert beside.cache > alone.cache
    assert beside.total > alone.total
    with pytest.raises(DoesNotFit):
        load(path, loading=pooling_loading("mean", model, budget=alone.total))


def test_what_cannot_pool_is_refused_before_it_is_loaded():
    with pytest.raises(UsageError, match="pooling is 'sum', known: mean, cls, last"):
        pooling_loading("sum")
    silent = Engine("toy", BackendSpec("toy", "toy", "a toy file", "pip", lambda _: True))
    with pytest.raises(UsageError, match="toy has no embeddings and no reranking: give the same"):
        silent.vector_engine()

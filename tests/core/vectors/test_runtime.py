"""Vectors and ranks from Python."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from localspec import Loading, load, load_vectors
from localspec.base.errors import DoesNotFit, ModelFileError, PromptTooLong, UsageError
from localspec.core.vectors.rows import normalise, scores
from localspec.running.memory.planner import Limits
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial import examine
from localspec.running.models.trial_child import Trial
from localspec.running.runtime.vector_loading import vector_options
from localspec.running.runtime.vector_runtime import VectorRuntime
from tests import engines, tiny_bert
from tests.backends.gguf_copies import copied
from tests.core.vectors.counting import Counting
from tests.core.vectors.offers import footprint

LOADING = Loading(replace(engines.OPTIONS, context=None))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_bert.write(tmp_path_factory.mktemp("bert") / "mean.gguf", "mean")


@pytest.fixture(scope="module", params=["gguf", "mlx"] if engines.MLX else ["gguf"])
def embedder(request, bert, tmp_path_factory):
    """A model of whole texts, and how to load it."""
    if request.param == "gguf":
        return bert, LOADING
    folder = tmp_path_factory.mktemp("mlx") / "mean"
    engines.tiny_mlx.write_embedder(folder, "mean_tokens")
    return folder, replace(LOADING, options=replace(LOADING.options, threads=None))


@pytest.fixture
def counting():
    with VectorRuntime(Counting(), prefixes={"query": "Q "}) as runtime:
        yield runtime


def test_vectors_have_length_one(counting):
    vectors = counting.embed(["abc", [97, 98]])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert np.allclose(vectors[0], normalise(np.array([[3, 97, 0, 0]], np.float32))[0])


def test_a_query_has_what_goes_before_it(counting):
    query = counting.embed(["abc"], kind="query")
    assert np.allclose(query, counting.embed(["Q abc"]))
    assert np.allclose(counting.embed(["abc"], kind="document"), counting.embed(["abc"]))


def test_fewer_dimensions_are_asked_for_within_bounds(counting):
    assert counting.embed(["abc"], dimensions=2).shape == (1, 2)
    with pytest.raises(UsageError, match="dimensions is 5; this model has 4"):
        counting.embed(["abc"], dimensions=5)


@pytest.mark.parametrize("text", ["a" * 33, [97] * 33, "a" * 2000])
def test_what_is_too_long_is_refused_or_cut(counting, text):
    with pytest.raises(PromptTooLong, match="this model was loaded for 32 tokens"):
        counting.embed([text])
    assert np.allclose(counting.embed([text], cut=True), counting.embed(["a" * 32]))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ("abc", "texts are a list"),
        ([""], "text is empty"),
        ([[]], "text is empty"),
        ([[300]], "the token 300; there are 256"),
        ([[-1]], "the token -1"),
    ],
)
def test_what_is_no_text_is_refused(counting, texts, words):
    with pytest.raises(UsageError, match=words):
        counting.embed(texts)


def test_no_texts_have_no_vectors(counting):
    assert counting.embed([]).shape == (0, 4)


def test_a_model_does_what_it_is_for(counting):
    with pytest.raises(UsageError, match="turns texts into vectors; give one that ranks"):
        counting.rank("q", ["a"])
    with VectorRuntime(Counting("rank")) as ranker:
        assert ranker.rank("q", ["a", "aaa"]).tolist() == [3, 5]
        with pytest.raises(UsageError, match="this model ranks documents"):
            ranker.embed(["a"])


def test_a_logit_becomes_a_score_from_0_to_1():
    rows = np.array([[0.0], [100.0], [-100.0]], np.float32)
    assert scores(rows).tolist() == [0.5, 1.0, pytest.approx(0, abs=1e-9)]
    assert scores(rows, raw=True).tolist() == [0, 100, -100]
    assert scores(np.array([[0.25, 0.75]], np.float32)).tolist() == [0.25]


def test_norms_are_those_of_llama_cpps_server():
    vectors = np.array([[3.0, -4.0], [0.0, 0.0]], np.float32)
    assert normalise(vectors).tolist() == [[pytest.approx(0.6), pytest.approx(-0.8)], [0, 0]]
    assert normalise(vectors, -1).tolist() == vectors.tolist()
    assert normalise(vectors, 0)[0].tolist() == [24570, -32760]
    assert normalise(vectors, 1)[0].tolist() == [pytest.approx(3 / 7), pytest.approx(-4 / 7)]


def test_a_file_is_loaded_by_its_path(bert):
    arithmetic = tiny_bert.Arithmetic(bert)
    with load_vectors(bert, LOADING) as runtime:
        [vector] = runtime.embed(["the sea"])
        assert (runtime.kind, runtime.pooling, runtime.context) == ("embedding", "mean", 512)
        assert runtime.facts.plan.options.context == 512
        expected = arithmetic.pooled(runtime.tokens("the sea"), "mean")
    assert np.abs(vector - expected / np.linalg.norm(expected)).max() < 1e-3


def test_a_model_of_either_engine_is_planned_for_and_loaded(embedder):
    path, loading = embedder
    with load_vectors(path, loading) as runtime:
        assert (runtime.kind, runtime.pooling) == ("embedding", "mean")
        assert runtime.facts.plan.options.context == runtime.context
        one, two, again = runtime.embed(["the sea", "the code", "the sea"])
        assert one @ one == pytest.approx(1)
        assert one @ again > 0.999 > one @ two


def test_a_context_is_never_longer_than_the_model_was_made_for():
    file = footprint("mean")
    assert vector_options(replace(engines.OPTIONS, context=4096), file).context == 512
    assert vector_options(replace(engines.OPTIONS, context=100), file).context == 100
    assert vector_options(LOADING.options, replace(file, context=8192)).context == 2048
    assert vector_options(LOADING.options, replace(file, positions=300)).context == 300


def test_each_kind_of_model_is_refused_where_the_other_belongs(embedder):
    path, loading = embedder
    with pytest.raises(UsageError, match="turns texts into vectors, and continues none"):
        load(path)
    other = engines.tiny_folder("llama") if path.is_dir() else engines.tiny("llama")
    with pytest.raises(UsageError, match="continues text, and does not say how a text becomes"):
        load_vectors(other, loading)


def test_what_does_not_fit_is_refused_before_it_is_loaded(embedder):
    path, loading = embedder
    with pytest.raises(DoesNotFit, match="more than the budget leaves"):
        load_vectors(path, replace(loading, limits=Limits(budget=100_000)))


def broken(path: Path, folder: Path) -> Path:
    """Copy a model with weights that are no numbers."""
    nothing = np.full(64, np.nan, np.float32)
    if path.is_file():
        return copied(path, folder / "broken.gguf", {}, {"token_embd_norm.bias": nothing})
    import mlx.core as mx

    copy = Path(shutil.copytree(path, folder / "broken"))
    weights = mx.load(str(path / "model.safetensors")) | {"norm.weight": mx.array(nothing)}
    mx.save_safetensors(str(copy / "model.safetensors"), weights)
    return copy


def test_a_trial_reads_texts_and_finds_broken_weights(embedder, tmp_path):
    path, loading = embedder
    engine = engines.MLX_ENGINE if path.is_dir() else engines.GGUF_ENGINE
    options, steps = replace(loading.options, slots=1, context=512), []
    Trial(engine, path).run(options, lambda: steps.append(1))
    assert len(steps) >= 3
    with pytest.raises(ModelFileError, match="its weights are broken"):
        Trial(engine, broken(path, tmp_path)).run(options, steps.clear)
    with examine(ModelFiles(engine, path)) as examined:
        assert examined.footprint().pooling == "mean"

"""GGUF models of whole texts, held against their arithmetic in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import ModelFileError
from localspec.core.vectors.rows import normalise, scores
from localspec.interfaces.backend import Options
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.pooled import BATCH, PooledContext
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.rehearsal import rehearse
from localspec_llamacpp.vectors import load_vectors, pooled_shape
from tests import engines, tiny_bert
from tests.backends.gguf_copies import copied, numbers
from tests.tiny import WIDTH

TEXTS = ("the code is the code", "a", "on this side of the sea, not of that", "return", "")
OPTIONS = Options(threads=1, context=512)
CLOSE = 1e-3


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    return {
        pooling: tiny_bert.write(folder / f"{pooling}.gguf", pooling)
        for pooling in tiny_bert.POOLINGS
    }


@pytest.fixture(scope="session")
def causal(tmp_path_factory):
    """A decoder that is read by its last token, and one that ranks by it."""
    folder, source = tmp_path_factory.mktemp("causal"), engines.tiny("qwen3")
    classes = {"cls.output.weight": numbers(2, WIDTH, seed=5)}
    ranks = {"qwen3.pooling_type": 4, "qwen3.classifier.output_labels": ["yes", "no"]}
    return {
        "last": copied(source, folder / "last.gguf", {"qwen3.pooling_type": 3}),
        "rank": copied(source, folder / "rank.gguf", ranks, classes),
    }


def loaded(path, **options):
    return load_vectors(path, replace(OPTIONS, **options))


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_vectors_are_those_of_the_arithmetic_several_at_once(bert, pooling):
    model, arithmetic = loaded(bert[pooling]), tiny_bert.Arithmetic(bert[pooling])
    tokens = [model.text(text) for text in TEXTS]
    rows = normalise(model.read(tokens))
    expected = normalise(np.array([arithmetic.pooled(text, pooling) for text in tokens]))
    model.close()
    assert rows.shape == (len(TEXTS), tiny_bert.WIDTH)
    assert np.abs(rows - expected).max() < CLOSE


def test_a_text_is_read_with_the_marks_that_its_vocabulary_wants(bert):
    model = loaded(bert["cls"])
    assert model.text("the sea").tolist() == [
        tiny_bert.CLS,
        tiny_bert.TOKENS.index("▁the"),
        tiny_bert.TOKENS.index("▁sea"),
        tiny_bert.SEP,
    ]
    assert model.text("").tolist() == [tiny_bert.CLS, tiny_bert.SEP]
    assert model.text("the sea", 3).tolist() == [tiny_bert.CLS, 5 + 52, tiny_bert.SEP]
    model.close()


def test_a_text_does_not_depend_on_those_beside_it(bert):
    model = loaded(bert["mean"])
    tokens = [model.text(text) for text in TEXTS]
    together = model.read(tokens)
    alone = np.concatenate([model.read([text]) for text in tokens])
    model.close()
    assert np.abs(together - alone).max() < 1e-4


def test_a_text_longer_than_a_batch_is_read_alone(bert):
    model, arithmetic = loaded(bert["mean"]), tiny_bert.Arithmetic(bert["mean"])
    text = model.text("sea code " * 250)
    assert len(text) == 502
    rows = normalise(model.read([text]))
    model.close()
    expected = normalise(np.array([arithmetic.pooled(text, "mean")]))
    assert np.abs(rows - expected).max() < CLOSE


def test_a_classifier_scores_pairs(bert):
    model, arithmetic = loaded(bert["rank"]), tiny_bert.Arithmetic(bert["rank"])
    pairs = [model.pair("the sea", text) for text in TEXTS]
    assert pairs[1].tolist() == [
        *model.text("the sea"),
        tiny_bert.TOKENS.index("▁a"),
        tiny_bert.SEP,
    ]
    rows = model.read(pairs)
    model.close()
    assert rows.shape == (len(TEXTS), 1)
    expected = np.array([arithmetic.pooled(pair, "rank") for pair in pairs])
    assert np.abs(scores(rows) - 1 / (1 + np.exp(-expected[:, 0]))).max() < CLOSE


def test_a_document_is_cut_and_never_the_query(bert):
    model = loaded(bert["rank"])
    whole = model.pair("the sea", "code is not " * 20)
    cut = model.pair("the sea", "code is not " * 20, 16)
    assert (len(cut), cut[:-1].tolist(), cut[-1]) == (16, whole[:15].tolist(), tiny_bert.SEP)
    assert len(model.pair("the sea " * 20, "code", 16)) > 16
    model.close()


@pytest.mark.parametrize("pooling", ["last", "rank"])
def test_a_causal_text_is_read_in_pieces_as_it_would_be_whole(causal, pooling):
    """Only the last token's row is looked at, so the others need no output.

    Without flash attention, which rounds to 16 bits by the width of a batch.
    """
    exact = replace(OPTIONS, context=2048, flash_attention=False)
    path = causal[pooling]
    model = load_vectors(path, exact)
    texts = [model.text("the code is " * count) for count in (1, 40, 2)]
    long = model.text("it was not on the other side " * 120)
    assert len(long) > BATCH
    assert model._context.shape.in_pieces
    rows = np.concatenate([model.read(texts), model.read([long])])
    model.close()
    weights = ModelWeights(path, HOST)
    shape = replace(pooled_shape(weights, exact), in_pieces=False)
    whole = PooledContext(weights, shape)
    expected = np.concatenate([whole.read([text]) for text in (*texts, long)])
    whole.close()
    weights.close()
    assert rows.shape == (4, 2 if pooling == "rank" else WIDTH)
    assert np.abs(normalise(rows) - normalise(expected)).max() < 1e-4


def test_a_reranker_may_want_its_own_words_around_a_pair(causal, tmp_path):
    words = "about {query}: {document}!"
    path = copied(causal["rank"], tmp_path / "m.gguf", {"tokenizer.chat_template.rerank": words})
    model = loaded(path)
    expected = model.tokenizer.encode("about {document}: the code!", special=True)
    assert model.pair("{document}", "the code").tolist() == expected.tolist()
    cut = model.pair("a", "the code is " * 30, 24)
    assert len(cut) <= 24
    assert model.tokenizer.token_bytes(int(cut[-1])) == b"!"
    model.close()


def test_the_header_tells_how_a_file_pools(bert, causal):
    assert {name: inspect(path).pooling for name, path in bert.items()} == {
        name: name for name in tiny_bert.POOLINGS
    }
    kinds = [inspect(path).kind for path in (bert["mean"], causal["rank"], engines.tiny("qwen3"))]
    assert kinds == ["embedding", "reranking", "text"]


def test_a_file_that_continues_text_is_no_embedding_model():
    with pytest.raises(ModelFileError, match="does not say how a text becomes a vector"):
        loaded(engines.tiny("llama"))


def test_what_it_takes_is_counted_before_it_is_loaded(bert, causal):
    for path in (bert["mean"], causal["last"]):
        with rehearse(path) as rehearsal:
            short, long = (
                rehearsal.needs(replace(OPTIONS, context=context)) for context in (64, 512)
            )
            assert rehearsal.footprint.layers == inspect(path).layers
        assert short.weights == long.weights == inspect(path).weight_bytes
        assert 0 < short.total < long.total

"""Embeddings and reranking over HTTP, as clients of every API send them."""

from __future__ import annotations

import base64
import json
import threading
from datetime import UTC, datetime

import numpy as np
import ollama
import openai
import pytest
from langchain_openai import OpenAIEmbeddings

from localspec.apps.server.app import ServerPolicy
from tests.apps.server.scripted import Server
from tests.core.vectors.counting import Counting
from tests.core.vectors.offers import offer
from tests.waiting import until

A = ord("a")


@pytest.fixture(scope="module")
def model():
    return Counting()


@pytest.fixture(scope="module")
def server(model):
    beside = [offer("embedder", model), offer("ranker", Counting("rank"))]
    made = Server(beside=beside)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="any", max_retries=0) as client:
        yield client


def unit(*numbers):
    numbers = np.array([*numbers, 0, 0], np.float32)
    return numbers / np.linalg.norm(numbers)


def embedded(server, **body):
    answer = server.client.post("/v1/embeddings", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(server, path, body):
    answer = server.client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    return answer.text


def test_texts_become_vectors_of_length_one(server):
    embeddings = embedded(server, model="embedder", input=["abc", "b"])
    assert [entry["index"] for entry in embeddings["data"]] == [0, 1]
    assert {entry["object"] for entry in embeddings["data"]} == {"embedding"}
    vectors = [entry["embedding"] for entry in embeddings["data"]]
    assert np.allclose(vectors, [unit(3, A), unit(1, A + 1)], atol=1e-6)
    assert embeddings["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert (embeddings["object"], embeddings["model"]) == ("list", "embedder")


@pytest.mark.parametrize(
    ("texts", "rows"),
    [
        ("abc", [(3, A)]),
        ([97, 98], [(2, A)]),
        ([[97, 98], [98]], [(2, A), (1, A + 1)]),
        ([97, "bc"], [(3, A)]),
        (["a", [98, 98]], [(1, A), (2, A + 1)]),
    ],
)
def test_texts_come_as_text_as_tokens_or_as_both(server, texts, rows):
    data = embedded(server, input=texts)["data"]
    assert np.allclose([entry["embedding"] for entry in data], [unit(*row) for row in rows])


def test_base64_holds_numbers_of_32_bits(server):
    [entry] = embedded(server, input="abc", encoding_format="base64")["data"]
    numbers = np.frombuffer(base64.b64decode(entry["embedding"]), "<f4")
    assert np.allclose(numbers, unit(3, A))


def test_fewer_dimensions_are_the_first_ones_normalised_anew(server):
    [entry] = embedded(server, input="abc", dimensions=1)["data"]
    assert entry["embedding"] == [1.0]
    text = refusal(server, "/v1/embeddings", {"input": "a", "dimensions": 5})
    assert "dimensions is 5; this model has 4" in text


def test_openais_library_asks_by_base64_and_gets_numbers(client):
    response = client.embeddings.create(model="embedder", input=["abc"])
    assert np.allclose(response.data[0].embedding, unit(3, A))
    assert response.usage.prompt_tokens == 3


def test_langchain_embeds_documents_and_a_question(server):
    """It sends tokens of OpenAI's vocabulary, unless it is told not to."""
    embeddings = OpenAIEmbeddings(
        model="embedder",
        base_url=f"{server.address}/v1",
        api_key="any",
        check_embedding_ctx_length=False,
    )
    vectors = embeddings.embed_documents([f"{'a' * length}" for length in range(1, 21)])
    assert np.allclose(vectors, [unit(length, A) for length in range(1, 21)])
    assert np.allclose(embeddings.embed_query("abc"), unit(3, A))


def test_ollamas_library_embeds(server):
    with ollama.Client(host=server.address) as client:
        vectors = client.embed(model="embedder", input=["abc", "b"])
        old = client.embeddings(model="embedder", prompt="abc")
    assert np.allclose(vectors.embeddings, [unit(3, A), unit(1, A + 1)])
    assert vectors.prompt_eval_count == 4
    assert list(old.embedding) == [3, A, 0, 0]


def test_continue_and_open_webui_ask_as_they_do(server):
    """Continue sends `encoding_format` and a model; Open WebUI a user besides."""
    body = {"input": ["abc"], "model": "embedder", "encoding_format": "float"}
    assert len(embedded(server, **body)["data"]) == 1
    response = server.client.post("/v1/embeddings", json={**body, "user": "u"})
    assert "x-localspec-ignored" not in response.headers
    response = server.client.post("/api/embed", json={"input": ["abc"], "model": "embedder:latest"})
    assert len(response.json()["embeddings"]) == 1


def test_llamacpps_paths_answer_in_its_form(server):
    for path in ("/embedding", "/embeddings"):
        body = server.client.post(path, json={"content": "abc"}).json()
        assert body[0]["index"] == 0
        assert np.allclose(body[0]["embedding"], [unit(3, A)])
    body = server.client.post("/embeddings", json={"input": ["abc"], "embd_normalize": -1})
    assert body.json()[0]["embedding"] == [[3.0, A, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("fields", "prefix"),
    [
        ({"input_type": "query"}, "Q"),
        ({"input_type": "search_document"}, "D"),
        ({"task": "retrieval.query"}, "Q"),
        ({"prompt_name": "document"}, "D"),
        ({}, ""),
    ],
)
def test_what_a_text_is_decides_what_goes_before_it(server, fields, prefix):
    [entry] = embedded(server, input="abc", **fields)["data"]
    text = f"{prefix}abc"
    assert np.allclose(entry["embedding"], unit(len(text), ord(text[0])))


def test_an_unknown_kind_of_text_is_reported(server):
    response = server.client.post("/v1/embeddings", json={"input": "abc", "task": "clustering"})
    assert response.headers["x-localspec-ignored"] == "task"


def test_a_text_that_is_too_long_is_refused_or_cut_as_it_says(server):
    long = {"input": ["a", "b" * 33]}
    text = refusal(server, "/v1/embeddings", long)
    assert "input.1 has 33 tokens; this model was loaded for 32 tokens" in text
    assert "context_length_exceeded" in text
    for way in ({"truncate": True}, {"truncate": "END"}, {"truncate_prompt_tokens": -1}):
        data = embedded(server, **long, **way)["data"]
        assert np.allclose(data[1]["embedding"], unit(32, A + 1))
    [entry] = embedded(server, input="b" * 33, truncate_prompt_tokens=5)["data"]
    assert np.allclose(entry["embedding"], unit(5, A + 1))
    assert "33" in refusal(server, "/v1/embeddings", {**long, "truncate": "NONE"})
    assert "known: NONE, END" in refusal(server, "/v1/embeddings", {**long, "truncate": "START"})


def test_ollama_cuts_unless_it_is_told_not_to(server):
    body = {"model": "embedder", "input": "b" * 33}
    answer = server.client.post("/api/embed", json=body).json()
    assert np.allclose(answer["embeddings"][0], unit(32, A + 1))
    assert "33 tokens" in refusal(server, "/api/embed", {**body, "truncate": False})


def test_ollama_loads_a_model_by_asking_for_nothing(server):
    response = server.client.post("/api/embed", json={"model": "embedder"})
    assert response.json() == {"model": "embedder", "embeddings": []}
    assert "embedder" in server.app.state.host.loaded
    assert server.client.post("/api/embeddings", json={"model": "embedder"}).json() == {
        "embedding": []
    }


def loaded_embedders(server):
    models = server.client.get("/api/ps").json()["models"]
    return [model for model in models if model["name"].startswith("embedder")]


@pytest.mark.parametrize(
    ("path", "field"), [("/api/embed", "input"), ("/api/embeddings", "prompt")]
)
def test_a_client_of_ollama_says_how_long_a_model_of_vectors_stays(path, field, server):
    for text in ("", "here"):
        body = {"model": "embedder", field: text, "keep_alive": "90s"}
        assert server.client.post(path, json=body).is_success
        [listed] = loaded_embedders(server)
        ends = datetime.fromisoformat(listed["expires_at"])
        assert 60 < (ends - datetime.now(UTC)).total_seconds() <= 90
        server.client.post(path, json=body | {"keep_alive": -1})
        assert loaded_embedders(server)[0]["expires_at"].startswith("9999")
    assert server.client.post(path, json={"model": "embedder", "keep_alive": 0}).is_success
    assert not loaded_embedders(server)
    assert server.client.post(path, json=body | {"keep_alive": "20ms"}).is_success
    until(lambda: not loaded_embedders(server))
    assert server.client.post(path, json=body | {"keep_alive": -1}).is_success


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"input": ["a"] * 10_000}, "input has 10,000 texts; a request may have 2,048"),
        ({"input": []}, "input is empty"),
        ({"input": ""}, "input is empty"),
        ({"input": ["a", ""]}, "input.1 is empty"),
        ({}, "input is empty"),
        ({"input": [97, 999]}, "input has the token 999; there are 256"),
        ({"input": {"a": 1}}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": [[["a"]]]}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": "many"}, "dimensions"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(server, body, words):
    assert words in refusal(server, "/v1/embeddings", body)


def test_a_model_of_another_kind_is_refused_by_name(server):
    hi = [{"role": "user", "content": "hi"}]
    text = refusal(server, "/v1/chat/completions", {"model": "embedder", "messages": hi})
    assert "embedder turns texts into vectors" in text
    assert "ask for scripted" in text
    text = refusal(server, "/v1/embeddings", {"model": "scripted", "input": "a"})
    assert "scripted continues text" in text
    assert "ask for embedder" in text
    text = refusal(server, "/v1/rerank", {"model": "embedder", "query": "a", "documents": ["b"]})
    assert "ask for ranker" in text


def test_an_unknown_name_is_answered_by_the_first_of_the_kind(server):
    assert embedded(server, model="text-embedding-3-small", input="a")["model"] == "embedder"
    assert embedded(server, input="a")["model"] == "embedder"
    body = server.client.post("/v1/rerank", json={"query": "a", "documents": ["b"]}).json()
    assert body["model"] == "ranker"
    assert server.ask("here") == "You said: here"


def test_a_strict_server_wants_the_right_name():
    made = Server(policy=ServerPolicy(strict=True), beside=[offer("embedder", Counting())])
    try:
        answer = made.client.post("/v1/embeddings", json={"model": "other", "input": "a"})
        assert (answer.status_code, "no model 'other'" in answer.text) == (404, True)
    finally:
        made.close()


def test_documents_are_ranked_the_best_first(server):
    body = {"model": "ranker", "query": "q", "documents": ["a", "aaa", {"text": "aa"}]}
    for path in ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"):
        answer = server.client.post(path, json=body).json()
        assert [entry["index"] for entry in answer["results"]] == [1, 2, 0]
        assert [entry["relevance_score"] for entry in answer["results"]] == [5, 4, 3]
        assert answer["usage"]["total_tokens"] == 12
    most = server.client.post("/v1/rerank", json={**body, "top_n": 1, "return_documents": True})
    [best] = most.json()["results"]
    assert best["document"] == {"text": "aaa"}


def test_tei_names_its_documents_texts(server):
    body = {"query": "q", "texts": ["a", "aa"], "return_text": True}
    answer = server.client.post("/rerank", json=body).json()
    assert answer == [
        {"index": 1, "score": 4.0, "text": "aa"},
        {"index": 0, "score": 3.0, "text": "a"},
    ]


def test_a_document_is_cut_and_a_query_is_not(server):
    body = server.client.post("/v1/rerank", json={"query": "q", "documents": ["a" * 99]}).json()
    assert body["usage"]["total_tokens"] == 32
    text = refusal(server, "/v1/rerank", {"query": "q" * 40, "documents": ["a"]})
    assert "query has" in text
    whole = {"query": "q", "documents": ["a" * 99], "truncation": False}
    assert "documents.0 has 101 tokens" in refusal(server, "/v1/rerank", whole)


def test_pairs_are_scored(server):
    for path in ("/v1/score", "/score"):
        answer = server.client.post(path, json={"text_1": "q", "text_2": ["a", "aa"]}).json()
        assert [entry["score"] for entry in answer["data"]] == [3, 4]
    body = {"text_1": ["q", "qq"], "text_2": ["a", "aa"]}
    answer = server.client.post("/v1/score", json=body).json()
    assert [entry["score"] for entry in answer["data"]] == [3, 5]
    text = refusal(server, "/v1/score", {"text_1": ["q", "q"], "text_2": ["a"]})
    assert "text_1 has 2 texts and text_2 1" in text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"query": "q"}, "documents is empty"),
        ({"documents": ["a"]}, "query"),
        ({"query": "q", "documents": [1]}, "documents"),
        ({"query": "q", "documents": [{"title": "a"}]}, "documents"),
        ({"query": "q", "documents": ["a"], "top_n": -1}, "top_n"),
        ({"query": "q", "documents": ["a"] * 3000}, "documents has 3,000 texts"),
    ],
)
def test_what_cannot_be_ranked_is_refused_by_its_field(server, body, words):
    assert words in refusal(server, "/v1/rerank", body)


def test_models_are_listed_by_what_they_do(server):
    described = {m["id"]: m for m in server.client.get("/v1/models").json()["data"]}
    outputs = {name: m["architecture"]["output_modalities"] for name, m in described.items()}
    assert outputs == {"scripted": ["text"], "embedder": ["embeddings"], "ranker": ["scores"]}
    shown = server.client.post("/api/show", json={"model": "embedder"}).json()
    assert shown["capabilities"] == ["embedding"]
    assert shown["model_info"]["bert.embedding_length"] == 4
    assert server.client.get("/props?model=embedder").json()["n_ctx"] == 32
    assert server.client.get("/metrics").status_code == 200
    assert server.client.get("/api/ps").status_code == 200


def test_texts_and_their_tokens_are_counted():
    made = Server(beside=[offer("embedder", Counting())])
    try:
        embedded(made, input=["abc", "b"])
        lines = made.client.get("/metrics").text.splitlines()
    finally:
        made.close()
    assert 'localspec_texts_read_total{model="embedder"} 2.0' in lines
    assert 'localspec_text_tokens_total{model="embedder"} 4.0' in lines
    assert "llamacpp:prompt_tokens_total 4.0" in lines


def test_a_client_that_leaves_waits_for_no_more_texts(server, model):
    model.gate = threading.Event()
    model.entered.clear()
    before = len(model.batches)
    with pytest.raises(Exception, match="timed out"):
        server.client.post("/v1/embeddings", json={"input": ["aaaa"] * 200}, timeout=0.5)
    assert model.entered.wait(30)
    while server.app.state.host.loaded["embedder"].users:
        pass
    gate, model.gate = model.gate, None
    gate.set()
    assert embedded(server, input="abc")["usage"]["prompt_tokens"] == 3
    assert len(model.batches) - before <= 3


def test_where_nothing_turns_texts_into_vectors_that_is_said():
    made = Server()
    try:
        for path, does in (("/v1/embeddings", "into vectors"), ("/v1/rerank", "ranks documents")):
            body = {"input": "a", "query": "q", "documents": ["a"]}
            text = refusal(made, path, body)
            assert "no model is served that" in text
            assert "give localspec serve one, too, such as " in text
            assert "such as " in refusal(made, path, body | {"model": "scripted"})
            assert does in text
            assert ("--pooling mean" in text) is (path == "/v1/embeddings")
            assert json.loads(text)["error"]["code"] == "not_supported"
    finally:
        made.close()


def test_a_chat_model_that_pools_answers_where_no_other_turns_texts_into_vectors(model):
    for beside, name in (([], "scripted"), ([offer("embedder", model)], "embedder")):
        made = Server(vectors=Counting(), beside=beside)
        try:
            vectors = embedded(made, input=["abc", "b"])
            assert vectors["model"] == name
            assert vectors["data"][0]["embedding"] == pytest.approx(unit(3, A).tolist())
            assert embedded(made, model="scripted", input="abc")["model"] == "scripted"
            assert made.ask("hi") == "You said: hi"
            shown = made.client.post("/api/show", json={"model": "scripted"}).json()
            assert {"completion", "embedding"} <= set(shown["capabilities"])
            assert "ranks documents" in refusal(
                made, "/v1/rerank", {"query": "q", "documents": ["a"]}
            )
        finally:
            made.close()

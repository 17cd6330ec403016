"""Paths of other servers: refused with what to do instead, or answered as they are there."""

from __future__ import annotations

import pytest

HI = {"role": "user", "content": "hi"}
REFUSED = {
    "/pooling": "vectors",
    "/v1/classify": "vectors",
    "/v1/audio/speech": "text only",
    "/v1/audio/transcriptions": "text only",
    "/v1/images/generations": "text only",
    "/v1/responses/compact": "send what is needed",
    "/v1/conversations": "send what is needed",
    "/v1/files": "send what is needed",
    "/v1/messages/batches": "at once",
    "/api/create": "localspec serve",
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_nobody_answers_here_says_what_to_do_instead(server, path):
    answer = server.client.post(path, json={"model": "m", "input": "a"})
    assert answer.status_code == 400  # a 501 would be asked again
    assert path in answer.text
    assert REFUSED[path] in answer.text


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({}, []),
        ({"content": ""}, []),
        ({"content": ["a", 66, "c"]}, [97, 66, 99]),
        ({"prompt": "ab"}, [97, 98]),
    ],
)
def test_texts_and_tokens_become_tokens(server, body, tokens):
    assert server.client.post("/tokenize", json=body).json()["tokens"] == tokens
    back = server.client.post("/detokenize", json={"tokens": tokens} if tokens else {})
    assert back.json()["content"] == bytes(tokens).decode()


def test_a_token_that_is_none_is_refused(server):
    answer = server.client.post("/tokenize", json={"content": ["a", 1 << 20]})
    assert answer.status_code == 400
    long = server.client.post("/tokenize", json={"content": ["a" * (1 << 20), "a"]})
    assert (long.status_code, "1,048,576" in long.text) == (400, True)


@pytest.mark.parametrize(
    "prompt", [{"prompt_string": "a"}, {"prompt_string": "a", "multimodal_data": []}]
)
def test_a_prompt_may_be_an_object(server, prompt):
    plain = server.client.post("/completion", json={"prompt": "a", "n_predict": 3}).json()
    body = server.client.post("/completion", json={"prompt": prompt, "n_predict": 3}).json()
    assert body["content"] == plain["content"]
    both = server.client.post("/completion", json={"prompt": [prompt, "b"], "n_predict": 3})
    assert len(both.json()) == 2
    seen = {"prompt_string": "a", "multimodal_data": ["aGVsbG8="]}
    refused = server.client.post("/completion", json={"prompt": seen, "n_predict": 3})
    assert (refused.status_code, "text only" in refused.text) == (400, True)


def test_tokens_of_a_conversation_are_counted(server):
    body = {"messages": [HI], "max_tokens": 1}
    counted = server.client.post("/v1/chat/completions/input_tokens", json=body).json()
    answered = server.client.post("/v1/chat/completions", json=body).json()
    assert counted["input_tokens"] == answered["usage"]["prompt_tokens"]


def test_a_tool_with_a_pattern_that_looks_around_is_taken(server):
    text = {"type": "string", "pattern": "^(?!-)a"}
    function = {"name": "f", "parameters": {"type": "object", "properties": {"a": text}}}
    body = {"messages": [HI], "tools": [{"type": "function", "function": function}]}
    answer = server.client.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"] == "You said: hi"

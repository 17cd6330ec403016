"""Requests that say what is known in other words, and answers that clients look into."""

from __future__ import annotations

import json

import pytest

from tests.apps.server.client_requests import CHAT, GENERATE, HI, OBJECT, OLD

TOLD = "x-localspec-ignored"
PATH = '{"path": "x"}'
UNHELD = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "format": "file-path"},
        "tags": {"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True, "maxItems": 1},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.fixture
def chat(server):
    server.replies["form?"] = PATH

    def ask(path=CHAT, **more):
        body = {"messages": [{"role": "user", "content": "form?"}], "temperature": 0}
        return server.client.post(path, json=body | more)

    return ask


@pytest.mark.parametrize(
    "form",
    [
        {"type": "JSON"},
        {"type": "json_schema", "json_schema": OBJECT},
        {"type": "json_schema", "schema": json.dumps(OBJECT)},
        {"type": "json_schema", "json_schema": json.dumps({"schema": OBJECT})},
        {"type": "json_schema", "json_schema": {"name": "x", "schema": json.dumps(OBJECT)}},
    ],
)
def test_a_schema_is_found_wherever_it_stands(chat, form):
    answer = chat(response_format=form)
    assert answer.status_code == 200, answer.text
    assert TOLD not in answer.headers
    assert json.loads(answer.json()["choices"][0]["message"]["content"]) == {"path": "x"}


def test_any_object_and_an_object_by_a_schema_are_one_form(chat):
    short = {"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]}
    short["additionalProperties"] = False
    answer = chat(response_format={"type": "json_object"}, json_schema=short).json()
    assert json.loads(answer["choices"][0]["message"]["content"])["n"] == 7
    two = chat(grammar='root ::= "a"', json_schema=short)
    assert (two.status_code, "one form" in two.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "more", "told"),
    [
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {"schema": UNHELD}}},
            "response_format.json_schema.schema",
        ),
        (CHAT, {"json_schema": UNHELD}, "json_schema"),
        (OLD, {"model": "m", "stream": False, "format": UNHELD}, "format"),
        (OLD, {"model": "m", "stream": False, "format": json.dumps(UNHELD)}, "format"),
    ],
)
def test_of_a_schema_what_can_be_held_to_is(chat, strict, path, more, told):
    answer = chat(path, **more)
    assert answer.status_code == 200, answer.text
    assert told in answer.headers[TOLD].split(", ")
    found = answer.json()
    message = found["message"] if path == OLD else found["choices"][0]["message"]
    assert json.loads(message["content"])["path"].startswith("x")
    body = {"messages": [HI], **more, "model": "scripted"}
    refused = strict.client.post(path, json=body)
    assert (refused.status_code, told in refused.text) == (400, True)


@pytest.mark.parametrize("path", [CHAT, OLD])
def test_a_schema_over_which_the_grammar_engine_stumbles_is_refused(chat, path):
    odd = {"type": "integer", "minimum": "é" * 100}
    answer = chat(path, model="m", format=odd, json_schema=odd)
    assert (answer.status_code, "cannot be followed" in answer.text) == (400, True)


def test_a_schema_within_another_name_is_read_by_responses_and_messages(server):
    server.replies["form?"] = PATH
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": OBJECT}}
    body = {"input": "form?", "text": {"format": form}, "temperature": 0}
    [item] = server.client.post("/v1/responses", json=body).json()["output"]
    assert json.loads(item["content"][0]["text"]) == {"path": "x"}
    form = {"format": {"type": "json_schema", "schema": UNHELD}}
    body = {"messages": [{"role": "user", "content": "form?"}], "output_config": form}
    answer = server.client.post("/v1/messages", json=body)
    assert answer.headers[TOLD] == "output_config.format.schema"


def test_a_conversation_goes_on_by_the_context_of_the_last_answer(server):
    def ask(prompt, context):
        body = {"model": "m", "prompt": prompt, "context": context, "stream": False}
        return server.client.post(GENERATE, json=body).json()

    first = ask("one", [])
    second = ask("two", first["context"])
    assert second["response"] == "You said: two"
    talk = ["one", "You said: one", "two"]
    messages = [
        {"role": role, "content": text}
        for role, text in zip(("user", "assistant", "user"), talk, strict=True)
    ]
    body = {"model": "m", "messages": messages, "stream": False}
    whole = server.client.post(OLD, json=body).json()
    assert abs(second["prompt_eval_count"] - whole["prompt_eval_count"]) <= 1  # a line's end
    streamed = {"model": "m", "prompt": "one"}
    last = server.client.post(GENERATE, json=streamed).text.splitlines()[-1]
    assert json.loads(last)["context"] == first["context"]
    refused = server.client.post(GENERATE, json=streamed | {"context": [1 << 20]})
    assert refused.status_code == 400


def test_a_conversation_that_is_too_long_loses_its_oldest_turns_as_with_ollama(server, strict):
    rules = {"role": "system", "content": "Be brief."}
    turns = [{"role": role, "content": "word " * 200} for role in ("user", "assistant")] * 10
    body = {"model": "scripted", "messages": [rules, *turns, HI], "stream": False}
    answer = server.client.post(OLD, json=body)
    assert answer.json()["message"]["content"] == "You said: hi"
    assert answer.headers[TOLD] == "messages"
    assert 6000 < answer.json()["prompt_eval_count"] < 8192
    for away in (body | {"truncate": False}, body | {"messages": [{**HI, "content": "a" * 9000}]}):
        refused = server.client.post(OLD, json=away)
        assert (refused.status_code, "> 8192" in refused.text) == (400, True)
    assert strict.client.post(OLD, json=body).status_code == 400


@pytest.mark.parametrize("keep_alive", [0, "0", "0s", "0m", 0.0, "0.0s"])
def test_a_model_that_is_kept_for_no_time_is_unloaded(server, keep_alive):
    body = {"model": "m", "keep_alive": keep_alive}
    assert server.client.post(GENERATE, json=body).json()["done_reason"] == "unload"


def test_an_only_model_is_described_by_any_name(server):
    [listed] = server.client.get("/v1/models/").json()["data"]
    assert (listed["type"], listed["display_name"]) == ("model", "scripted")
    assert server.client.get("/v1/models/gpt-4o").json()["id"] == "scripted"
    assert server.client.get("/props?model=gpt-4o").json()["model_alias"] == "scripted"
    assert server.client.get("/slots?model=gpt-4o").status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/tags", "/api/version", "/v1/models", "/health"])
def test_clients_may_look_at_heads(server, path):
    head, whole = server.client.head(path), server.client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


def test_several_replies_to_a_prompt_are_a_list(server):
    for name in ("n", "n_cmpl"):
        response = server.client.post("/completion", json={"prompt": "a", "n_predict": 4, name: 2})
        assert [each["content"] for each in response.json()] == ["YYYY"] * 2


@pytest.mark.parametrize("samplers", ["top_k;temperature", "top_k", "kt"])
def test_samplers_are_named_in_one_text(server, samplers):
    answer = server.client.post(
        "/completion", json={"prompt": "a", "n_predict": 4, "samplers": samplers}
    )
    assert TOLD not in answer.headers


def test_half_a_character_in_the_arguments_of_an_earlier_call_fails_nothing(server):
    function = {"name": "read_file", "arguments": '{"path": "\udfff\ud800"}'}
    call = {"id": "1", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": "1", "content": "its text"}
    body = {"messages": [HI, {"role": "assistant", "tool_calls": [call]}, result], "temperature": 0}
    headers = {"content-type": "application/json"}
    answer = server.client.post(CHAT, content=json.dumps(body), headers=headers)
    assert answer.json()["choices"][0]["message"]["content"] == "You said: its text"


@pytest.mark.parametrize("think", ["off", False, "none"])
def test_thinking_is_switched_as_ollama_does(server, think):
    asked = {"messages": [HI], "think": think}
    answer = server.client.post("/v1/chat/completions", json=asked)
    assert TOLD not in answer.headers
    assert answer.json()["choices"][0]["message"]["content"] == "You said: hi"


def test_calls_are_found_by_the_identifiers_there_are(server):
    call = {"type": "function_call", "id": "f1", "name": "read_file", "arguments": "{}"}
    result = {"type": "function_call_output", "id": "f1", "output": "its text"}
    body = {"input": [HI, call, result], "temperature": 0}
    [item] = server.client.post("/v1/responses", json=body).json()["output"]
    assert item["content"][0]["text"] == "You said: its text"

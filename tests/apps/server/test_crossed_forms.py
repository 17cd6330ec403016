"""Requests to one API in the words of another, as some clients send them."""

from __future__ import annotations

import pytest

from tests.apps.server.client_requests import CHAT, HI, ITEMS, OBJECT, TEXT

USE = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "x"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]}
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "well"}]}
ASKED = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


def rendered(server, **body: object) -> str:
    prompt: str = server.client.post("/apply-template", json=body).json()["prompt"]
    return prompt


def test_a_chat_may_have_calls_and_results_as_blocks(server):
    called = {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "Look."}, USE]}
    fields = {"role": "user", "content": [RESULT, {"type": "text", "text": "and?"}]}
    tools = [{"name": "read_file", "description": "Read.", "input_schema": OBJECT}]
    prompt = rendered(server, messages=[HI, called, fields], tools=tools)
    call = {"id": "t1", "type": "function"} | {
        "function": {"name": "read_file", "arguments": '{"path": "x"}'}
    }
    plain = [
        HI,
        {
            "role": "assistant",
            "content": "Look.",
            "reasoning_content": "well",
            "tool_calls": [call],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "rain"},
        {"role": "user", "content": "and?"},
    ]
    assert prompt == rendered(server, messages=plain, tools=tools)
    assert "rain" in prompt
    answer = server.client.post(CHAT, json={"messages": [HI, called, fields], "tools": tools})
    assert "x-localspec-ignored" not in answer.headers


def test_a_message_of_a_result_alone_leaves_no_empty_message(server):
    fields = {"role": "user", "content": [RESULT]}
    prompt = rendered(server, messages=[HI, {"role": "assistant", "content": [USE]}, fields])
    assert prompt.count("<|im_start|>user") == 1


def test_a_chat_of_items_has_their_limit_and_their_form(server):
    schema = {"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]}
    form = {"type": "json_schema", "name": "it", "schema": schema | {"additionalProperties": False}}
    answer = server.client.post(CHAT, json={"input": [ASKED], "text": {"format": form}})
    assert "x-localspec-ignored" not in answer.headers
    assert answer.json()["choices"][0]["message"]["content"] == '{"n": 7}'
    short = server.client.post(CHAT, json={"input": "hi", "max_output_tokens": 3}).json()
    assert short["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("limit", ["max_output_tokens", "max_completion_tokens", "max_tokens"])
def test_a_response_has_the_limit_of_a_chat(server, limit):
    answer = server.client.post(ITEMS, json={"input": "hi", limit: 3})
    assert "x-localspec-ignored" not in answer.headers
    assert answer.json()["usage"]["output_tokens"] == 3
    assert answer.json()["max_output_tokens"] == 3


def test_parts_alone_are_one_message_of_the_user(server):
    parts = [{"type": "input_text", "text": "he"}, {"type": "input_text", "text": "llo"}]
    [message] = server.client.post(ITEMS, json={"input": parts, "temperature": 0}).json()["output"]
    assert message["content"][0]["text"] == "You said: hello"


@pytest.mark.parametrize("path", [CHAT, ITEMS])
@pytest.mark.parametrize("choice", ["", {}, None])
def test_an_empty_choice_of_a_tool_is_none(server, path, choice):
    answer = server.client.post(path, json={"messages": [HI], "tool_choice": choice})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("name", ["seed", "random_seed", "sampler_seed"])
def test_a_seed_has_the_names_that_other_servers_give_it(server, name):
    answer = server.client.post("/completion", json={"prompt": "a", "n_predict": 1, name: 12})
    assert answer.json()["generation_settings"]["seed"] == 12
    assert "x-localspec-ignored" not in answer.headers


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", "chat.completion"),
        ("/openai/deployments/gpt-4o/completions", "text_completion"),
        ("/v1/engines/copilot-codex/completions", "text_completion"),
    ],
)
def test_a_path_may_name_a_deployment_or_an_engine(server, path, kind):
    answer = server.client.post(path, json={"messages": [HI], "prompt": "a", "max_tokens": 2})
    assert answer.json()["object"] == kind


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_times_per_second_are_numbers_in_every_answer(server, path):
    body = {"messages": [HI], "prompt": "a", "max_tokens": 1}
    timings = server.client.post(path, json=body).json()["timings"]
    for what in ("prompt", "predicted"):
        assert isinstance(timings[f"{what}_per_second"], float)
        assert isinstance(timings[f"{what}_per_token_ms"], float)


@pytest.mark.parametrize("body", [b"", b"null", b"5", b"[]"])
def test_a_body_that_is_no_object_is_refused_as_such(server, body):
    answer = server.client.post(CHAT, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the body of the request must be a JSON object"


def test_a_form_may_have_the_bounds_of_64_bits(server):
    server.replies["hi"] = '{"n": 7}'
    number = {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1}
    schema = {"type": "object", "properties": {"n": number}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": schema}}
    answer = server.client.post(
        CHAT, json={"messages": [HI], "response_format": form, "temperature": 0}
    )
    assert answer.headers["x-localspec-ignored"] == "response_format.json_schema.schema"
    assert answer.json()["choices"][0]["message"]["content"] == '{"n": 7}'
    del server.replies["hi"]


def test_a_conversation_is_tokenised_as_its_model_reads_it(server):
    """vLLM's server takes messages there; a client that sent some got no tokens."""
    body = {"messages": [HI], "tools": [{"name": "read_file", "input_schema": OBJECT}]}
    answer = server.client.post("/tokenize", json=body).json()
    prompt = server.client.post("/apply-template", json=body).json()["prompt"]
    assert (
        answer["tokens"]
        == server.client.post("/tokenize", json={"content": prompt}).json()["tokens"]
    )
    assert (answer["count"], answer["max_model_len"]) == (len(answer["tokens"]), 8192)
    back = server.client.post("/detokenize", json={"tokens": answer["tokens"]}).json()
    assert back == {"content": prompt, "prompt": prompt}


@pytest.mark.parametrize("flat", [False, True])
def test_a_message_may_have_tools_of_a_chat(server, flat):
    server.replies["hi"] = (
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "x"}}\n</tool_call>'
    )
    function = {"name": "read_file", "description": "Read.", "parameters": OBJECT}
    tool = {"type": "function", **(function if flat else {"function": function})}
    body = {"max_tokens": 90, "messages": [HI], "tools": [tool], "temperature": 0}
    answer = server.client.post("/v1/messages", json=body)
    assert "x-localspec-ignored" not in answer.headers
    [use] = answer.json()["content"]
    assert (use["name"], use["input"]) == ("read_file", {"path": "x"})
    del server.replies["hi"]

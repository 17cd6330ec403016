"""Which tools a reply calls, how often, and in what form: by each API."""

from __future__ import annotations

import json

import pytest

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 9}},
    "required": ["city"],
    "additionalProperties": False,
}


def function(name):
    return {"name": name, "description": "Tells of a city.", "parameters": SCHEMA}


TOOLS = [{"type": "function", "function": function(name)} for name in ("weather", "clock")]
FLAT = [{"type": "function", **function(name)} for name in ("weather", "clock")]
SCHEMAS = [{"name": name, "input_schema": SCHEMA} for name in ("weather", "clock")]
PLAIN = '{"name": "weather", "arguments": {"city": "Oslo"}}'
FENCED = f"```json\n{PLAIN}\n```"
MARKED = f"<tool_call>\n{PLAIN}\n</tool_call>"
ALLOWED = "allowed_tools"
OSLO = ("weather", {"city": "Oslo"})


def posted(server, path, body):
    answer = server.client.post(path, json={"model": "scripted", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def chat(server, text="go", **wishes):
    """What a chat says and calls, and why it ended."""
    messages = [{"role": "user", "content": text}]
    reply = posted(server, "/v1/chat/completions", {"messages": messages, "tools": TOOLS, **wishes})
    [choice] = reply["choices"]
    calls = [call["function"] for call in choice["message"].get("tool_calls", ())]
    made = [(call["name"], json.loads(call["arguments"])) for call in calls]
    return choice["message"]["content"], made, choice["finish_reason"]


def responses(server, text="go", **wishes):
    response = posted(server, "/v1/responses", {"input": text, "tools": FLAT, **wishes})
    calls = [each for each in response["output"] if each["type"] == "function_call"]
    return response, [(each["name"], json.loads(each["arguments"])) for each in calls]


def messages(server, text="go", **wishes):
    talk = [{"role": "user", "content": text}]
    body = {"messages": talk, "tools": SCHEMAS, "max_tokens": 200, **wishes}
    response = posted(server, "/v1/messages", body)
    return [(each["name"], each["input"]) for each in response["content"] if "input" in each]


def ollama(server, text="go"):
    talk = [{"role": "user", "content": text}]
    response = posted(server, "/api/chat", {"messages": talk, "tools": TOOLS, "stream": False})
    calls = [each["function"] for each in response["message"].get("tool_calls", ())]
    return [(each["name"], each["arguments"]) for each in calls]


@pytest.mark.parametrize("text", [PLAIN, FENCED, f"Let me look.\n\n{FENCED}"])
def test_a_call_in_plain_json_is_a_call_in_each_api(server, text):
    server.replies["go"] = text
    said, made, finish = chat(server)
    assert (said, made, finish) == ("Let me look." if "Let" in text else None, [OSLO], "tool_calls")
    assert responses(server)[1] == messages(server) == ollama(server) == [OSLO]


def test_a_stream_shows_nothing_of_a_call_in_plain_json_as_text(server):
    server.replies["go"] = f"Yes.\n{FENCED}"
    body = {"messages": [{"role": "user", "content": "go"}], "tools": TOOLS, "stream": True}
    text, arguments = "", ""
    with server.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                delta = json.loads(line.removeprefix("data: "))["choices"][0]["delta"]
                text += delta.get("content") or ""
                for call in delta.get("tool_calls", ()):
                    arguments += call["function"]["arguments"]
    assert (text, json.loads(arguments)) == ("Yes.", {"city": "Oslo"})


@pytest.mark.parametrize(
    "wishes",
    [{"tool_choice": "none"}, {"tools": []}, {"response_format": {"type": "json_object"}}],
)
def test_plain_json_is_an_answer_where_no_call_is_wished(server, wishes):
    server.replies["go"] = PLAIN
    assert chat(server, **wishes) == (PLAIN, [], "stop")


def test_text_and_drafts_are_the_same_where_calls_are_read(server):
    server.replies["go"] = text = "\n".join([FENCED.replace("weather", "radar")] * 3)
    said, made, _ = chat(server)
    assert (said, made) == (text, [])
    talk = {"messages": [{"role": "user", "content": "go"}], "tools": TOOLS}
    assert posted(server, "/v1/chat/completions", talk)["timings"]["draft_n_accepted"] > 20


NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_demanded_call_is_one_unless_the_client_wishes_several(server, choice):
    server.replies["go"] = MARKED * 2
    assert chat(server, tool_choice=choice)[1] == [OSLO]
    assert chat(server, tool_choice=choice, parallel_tool_calls=None)[1] == [OSLO]
    assert chat(server, tool_choice=choice, parallel_tool_calls=True)[1] == [OSLO, OSLO]
    assert chat(server, tool_choice=choice, parallel_tool_calls=False)[1] == [OSLO]


def test_a_call_that_responses_or_messages_demand_is_one_too(server):
    server.replies["go"] = MARKED * 2
    assert responses(server, tool_choice="required")[1] == [OSLO]
    assert responses(server, tool_choice="required", parallel_tool_calls=True)[1] == [OSLO] * 2
    assert messages(server, tool_choice={"type": "any"}) == [OSLO]
    several = {"type": "any", "disable_parallel_tool_use": False}
    assert messages(server, tool_choice=several) == [OSLO] * 2
    assert messages(server, tool_choice={"type": "tool", "name": "weather"}) == [OSLO]


def test_free_calls_may_be_several_unless_the_client_wishes_one(server):
    for text in (MARKED * 2, f"{FENCED}\n{FENCED}"):
        server.replies["go"] = text
        assert chat(server)[1] == [OSLO, OSLO]
        assert chat(server, parallel_tool_calls=False)[1] == [OSLO]


def allowed(*names, mode="auto", flat=False):
    listed = [{"type": "function", "name": name} for name in names]
    if not flat:
        listed = [{"type": "function", "function": {"name": name}} for name in names]
    within = {"mode": mode, "tools": listed}
    return {"type": ALLOWED, **(within if flat else {ALLOWED: within})}


@pytest.mark.parametrize("flat", [False, True])
def test_of_several_tools_only_the_allowed_ones_are_called(server, flat):
    for text in (PLAIN, FENCED):
        server.replies["go"] = text
        assert chat(server, tool_choice=allowed("clock", flat=flat)) == (text, [], "stop")
        assert chat(server, tool_choice=allowed("weather", "clock", flat=flat))[1] == [OSLO]
        found, made = responses(server, tool_choice=allowed("clock", flat=flat))
        assert made == []
        assert (found["tool_choice"]["type"], found["tool_choice"]["mode"]) == (ALLOWED, "auto")
    server.replies["go"] = MARKED
    choice = allowed("clock", mode="required", flat=flat)
    for made in (chat(server, tool_choice=choice)[1], responses(server, tool_choice=choice)[1]):
        assert [name for name, _ in made] == ["clock"]


def test_tools_that_are_not_allowed_stay_in_the_prompt(server):
    talk = {"messages": [{"role": "user", "content": "go"}], "tools": TOOLS}
    free = posted(server, "/v1/chat/completions", talk)
    held = posted(server, "/v1/chat/completions", {**talk, "tool_choice": allowed("clock")})
    assert held["usage"]["prompt_tokens"] == free["usage"]["prompt_tokens"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_allowing_only_what_is_no_tool_is_refused(server, path):
    asked = {"messages": [{"role": "user", "content": "go"}], "tools": TOOLS}
    for choice in (allowed("radar"), allowed("radar", mode="required")):
        answer = server.client.post(path, json={**asked, "tool_choice": choice})
        assert answer.status_code == 400
        assert "allows 'radar'" in answer.json()["error"]["message"]
    nothing = allowed()
    server.replies["go"] = PLAIN
    assert server.client.post(path, json={**asked, "tool_choice": nothing}).status_code == 200

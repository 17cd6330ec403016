"""Budgets for thought by the names of every API, efforts and defaults, and what is told of them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.apps.server.scripted import TEMPLATE, Server

SIGNS = "{# <think> </think> #}"
EFFORT = "{% if reasoning_effort is defined %}{{ reasoning_effort }}{% endif %}"
THOUGHT = "x" * 1100
WHY = [{"role": "user", "content": "why?"}]
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
OLLAMA, GENERATE = "/api/chat", "/api/generate"


def served(template=SIGNS + TEMPLATE):
    return Server({"why?": f"<think>{THOUGHT}</think>So."}, template=template)


@pytest.fixture(scope="module")
def thinker():
    made = served()
    yield made
    made.close()


@contextmanager
def defaults(server, **values):
    """Serve with other defaults."""
    offers = server.app.state.host.offers
    before, loaded = offers["scripted"], server.app.state.host.loaded.get("scripted")
    offers["scripted"] = replace(before, **values)
    if loaded:
        loaded.offer = offers["scripted"]
    try:
        yield
    finally:
        offers["scripted"] = before
        if loaded:
            loaded.offer = before


def body_of(path, **fields):
    match path:
        case "/v1/responses":
            return {"input": "why?", "temperature": 0, "max_output_tokens": 40, **fields}
        case "/api/chat":
            options = {"temperature": 0, "num_predict": 40}
            return {"model": "scripted", "messages": WHY, "options": options} | fields
        case "/api/generate":
            options = {"temperature": 0, "num_predict": 40}
            return {"model": "scripted", "prompt": "why?", "options": options} | fields
    return {"messages": WHY, "temperature": 0, "max_tokens": 40, **fields}


def ask(server, path, **fields):
    answer = server.client.post(path, json=body_of(path, stream=False, **fields))
    assert answer.status_code == 200, answer.text
    assert not answer.headers.get("x-localspec-ignored"), answer.headers
    return answer.json()


def thought_of(path, answer):
    """Return what was thought, by the answer of any API."""
    match path:
        case "/v1/chat/completions":
            return answer["choices"][0]["message"].get("reasoning_content", "")
        case "/v1/responses":
            items = [item for item in answer["output"] if item["type"] == "reasoning"]
            return "".join(part["text"] for item in items for part in item["content"])
        case "/v1/messages":
            return "".join(block.get("thinking", "") for block in answer["content"])
        case "/api/chat":
            return answer["message"].get("thinking", "")
    return answer.get("thinking", "")


NAMES = (
    "reasoning_budget",
    "reasoning_budget_tokens",
    "thinking_budget",
    "thinking_budget_tokens",
    "thinking_token_budget",
)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, OLLAMA, GENERATE])
def test_every_api_of_chats_knows_every_name_of_the_budget(thinker, path):
    for name in NAMES:
        assert thought_of(path, ask(thinker, path, **{name: 7})) == "x" * 7
    assert thought_of(path, ask(thinker, path, thinking_budget="7")) == "x" * 7
    assert thought_of(path, ask(thinker, path, thinking_budget=7.0)) == "x" * 7
    for limitless in (-1, -5, None, ""):
        assert len(thought_of(path, ask(thinker, path, thinking_budget=limitless))) > 7
    fields = {"reasoning_budget": 3, "reasoning_budget_message": " Enough."}
    assert thought_of(path, ask(thinker, path, **fields)) == "xxx Enough."


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"thinking": {"type": "enabled", "budget_tokens": 5}}),
        (CHAT, {"reasoning": {"max_tokens": 5}}),
        (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 5}}),
    ],
)
def test_a_budget_stands_in_the_field_about_thinking(thinker, path, fields):
    assert thought_of(path, ask(thinker, path, **fields)) == "x" * 5


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_adaptive_thought_has_no_budget(thinker, path):
    fields = {"thinking": {"type": "adaptive", "budget_tokens": 5}}
    assert len(thought_of(path, ask(thinker, path, **fields))) > 5


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"reasoning_budget": 0}),
        (CHAT, {"reasoning_effort": "none"}),
        (CHAT, {"reasoning_effort": "minimal"}),
        (CHAT, {"enable_thinking": False}),
        (CHAT, {"chat_template_kwargs": {"enable_thinking": False}}),
        (CHAT, {"thinking": {"type": "disabled"}}),
        (RESPONSES, {"reasoning": {"effort": "none"}}),
        (MESSAGES, {"thinking": {"type": "disabled"}}),
        (OLLAMA, {"think": False}),
        (GENERATE, {"think": False}),
        (CHAT, {"reasoning": "off"}),
    ],
)
def test_no_thought_is_none_whatever_the_template_knows(thinker, path, fields):
    assert thought_of(path, ask(thinker, path, **fields)) == ""


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, lambda effort: {"reasoning_effort": effort}),
        (CHAT, lambda effort: {"reasoning": {"effort": effort}}),
        (RESPONSES, lambda effort: {"reasoning": {"effort": effort}}),
        (MESSAGES, lambda effort: {"output_config": {"effort": effort}}),
        (OLLAMA, lambda effort: {"think": effort}),
        (CHAT, lambda effort: {"reasoning": effort}),
    ],
)
def test_an_effort_is_a_budget_where_the_template_knows_none(thinker, path, fields):
    long = {"max_tokens": 3000} if path in (CHAT, MESSAGES) else {"max_output_tokens": 3000}
    long = {"options": {"temperature": 0}} if path == OLLAMA else long
    for effort, most in (("low", 1024), ("medium", 1100), ("xhigh", 1100)):
        assert len(thought_of(path, ask(thinker, path, **long, **fields(effort)))) == most


def test_an_effort_that_the_template_knows_is_left_to_the_model():
    server = served(SIGNS + EFFORT + TEMPLATE)
    try:
        for effort in ("low", "minimal"):
            answer = ask(server, CHAT, reasoning_effort=effort, max_tokens=3000)
            assert thought_of(CHAT, answer) == THOUGHT
        assert thought_of(CHAT, ask(server, CHAT, reasoning_effort="none")) == ""
    finally:
        server.close()


def test_a_default_holds_where_a_request_leaves_the_budget_open(thinker):
    ask(thinker, CHAT)  # which loads the model
    with defaults(thinker, reasoning_budget=4, reasoning_budget_message=" Done."):
        assert thought_of(CHAT, ask(thinker, CHAT)) == "xxxx Done."
        assert thought_of(OLLAMA, ask(thinker, OLLAMA, think=True)) == "xxxx Done."
        assert thought_of(CHAT, ask(thinker, CHAT, reasoning_budget=2)) == "xx Done."
        fields = {"reasoning_budget": 2, "reasoning_budget_message": ""}
        assert thought_of(CHAT, ask(thinker, CHAT, **fields)) == "xx"
        assert len(thought_of(CHAT, ask(thinker, CHAT, reasoning_budget=-1))) > 4
        assert len(thought_of(CHAT, ask(thinker, CHAT, reasoning_effort="low"))) > 4
        assert thought_of(CHAT, ask(thinker, CHAT, enable_thinking=False)) == ""
    with defaults(thinker, reasoning_budget=0):
        assert thought_of(CHAT, ask(thinker, CHAT)) == ""
        assert len(thought_of(CHAT, ask(thinker, CHAT, enable_thinking=True))) > 4


@pytest.mark.parametrize("value", [True, "much", [3], {"a": 3}])
def test_a_budget_that_is_no_number_is_refused_by_its_name(thinker, value):
    refused = thinker.client.post(CHAT, json=body_of(CHAT, thinking_budget=value))
    assert refused.status_code == 400
    assert "thinking_budget" in refused.text
    long = body_of(CHAT, reasoning_budget=1, reasoning_budget_message="x" * 2000)
    refused = thinker.client.post(CHAT, json=long)
    assert refused.status_code == 400
    assert "2,000 characters; it may have 1,024" in refused.text


def test_several_replies_each_have_the_budget(thinker):
    answer = ask(thinker, CHAT, n=3, reasoning_budget=6)
    messages = [choice["message"] for choice in answer["choices"]]
    assert [message["reasoning_content"] for message in messages] == ["x" * 6] * 3
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3 * 7


def test_a_stream_is_cut_as_the_whole_answer_is(thinker):
    fields = {"reasoning_budget": 6, "stream_options": {"include_usage": True}}
    whole = ask(thinker, CHAT, reasoning_budget=6)
    stream = thinker.client.post(CHAT, json=body_of(CHAT, stream=True, **fields)).text
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    for name in ("reasoning_content", "content"):
        text = "".join(delta.get(name) or "" for delta in deltas)
        assert text == whole["choices"][0]["message"][name]
    assert events[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == 7
    assert [event["timings"]["thoughts_cut"] for event in events if "timings" in event] == [1]


def test_usage_counts_the_tokens_of_thoughts(thinker):
    thinker.replies["hm?"] = "<think>Hm.</think>So."
    chat = ask(thinker, CHAT, messages=[{"role": "user", "content": "hm?"}])
    assert chat["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3
    assert chat["timings"]["thoughts_cut"] == 0
    answer = ask(thinker, RESPONSES, input="hm?")
    assert answer["usage"]["output_tokens_details"] == {"reasoning_tokens": 3}
    answer = ask(thinker, MESSAGES, messages=[{"role": "user", "content": "hm?"}])
    assert answer["usage"]["output_tokens_details"] == {"thinking_tokens": 3}


def test_metrics_count_thoughts_that_were_cut(thinker):
    def counted():
        lines = thinker.client.get("/metrics").text.splitlines()
        names = ("localspec_reasoning_tokens_total", "localspec_thoughts_cut_total")
        return [float(line.split()[1]) for line in lines if line.startswith(names)]

    ask(thinker, CHAT, reasoning_budget=6)
    before = counted()
    ask(thinker, CHAT, reasoning_budget=6)
    assert [after - start for start, after in zip(before, counted(), strict=True)] == [7, 1]


def test_a_prompt_is_shown_as_it_is_with_the_budget(thinker):
    switch = "{% if enable_thinking is false %}off{% endif %}"
    server = served(SIGNS + TEMPLATE + switch)
    try:
        for fields, off in (({}, False), ({"thinking_budget": 0}, True)):
            shown = server.client.post("/apply-template", json=body_of(CHAT, **fields)).json()
            assert shown["prompt"].endswith("off") == off
    finally:
        server.close()

"""Prompts that clients announce, and the beginning of the prompt that follows a reply."""

from __future__ import annotations

import asyncio
import threading

import pytest

from localspec.apps.server import reading_ahead
from localspec.apps.server.app import ServerPolicy
from tests.apps.server.scripted import TEMPLATE, Bytes, Server
from tests.apps.server.test_load import until

SIGNS = "{# <think> </think> #}"
CHAT, WARM = "/v1/chat/completions", "/v1/cache/warm"
WHY = {"role": "user", "content": "why?"}
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "Oslo"}}\n</tool_call>'
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def server():
    thought = "<think>" + "x" * 300 + "</think>So."
    made = Server({"why?": thought, "where?": CALL}, template=SIGNS + TEMPLATE)
    yield made
    made.close()


def ask(server, *messages, **more):
    body = {"messages": messages, "max_tokens": 500, "temperature": 0, **more}
    answer = server.client.post(CHAT, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def replies_counted(server):
    lines = server.client.get("/metrics").text.splitlines()
    return [line for line in lines if line.startswith("localspec_replies_total{")]


def holds(server, text):
    """Whether a slot holds a text that ends so."""
    ends = server.model.tokenizer.encode(text, special=True).tolist()
    return any(held[-len(ends) :] == ends for held in list(server.model.held.values()))


def test_a_prompt_that_was_announced_is_held_when_it_is_asked(server):
    fields = {"role": "user", "content": "a text that one is still writing " * 20}
    body = server.client.post(WARM, json={"messages": [fields]}).json()
    assert (body["object"], body["complete"], body["model"]) == ("cache.warm", True, "scripted")
    assert body["prompt_tokens"] > len(fields["content"])
    assert cached(ask(server, fields)) == body["prompt_tokens"] - 1
    whole = {"role": "user", "content": fields["content"] + "and ends."}
    assert cached(ask(server, whole)) >= len(fields["content"])


def test_announced_prompts_count_as_no_replies(server):
    ask(server, WHY)
    before = replies_counted(server)
    assert server.client.post(WARM, json={"messages": [WHY]}).is_success
    assert before
    assert replies_counted(server) == before


def test_after_a_reply_with_a_thought_the_next_prompt_is_read_without_it(server):
    answer = ask(server, WHY)["choices"][0]["message"]
    assert answer["reasoning_content"].startswith("xx")
    until(lambda: holds(server, "So.<|im_end|>\n<|im_start|>user\n"))
    conversation = "<|im_start|>user\nwhy?<|im_end|>\n<|im_start|>assistant\nSo.<|im_end|>\n"
    begun = server.model.tokenizer.encode(conversation + "<|im_start|>user\n", special=True)
    follow = ask(server, WHY, {"role": "assistant", "content": "So."}, WHY)
    assert cached(follow) == len(begun)


def test_after_a_call_it_is_read_as_the_template_writes_it(server):
    where = {"role": "user", "content": "where?"}
    answer = ask(server, where, tools=[LOOK])["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    until(lambda: holds(server, "</tool_call><|im_end|>\n<|im_start|>tool\n"))
    result = {"role": "tool", "tool_call_id": "1", "content": "rain"}
    follow = ask(server, where, answer["message"], result, tools=[LOOK])
    assert follow["usage"]["prompt_tokens"] - cached(follow) < len("rain<|im_end|>assistant") + 9


def test_a_server_may_be_told_to_read_nothing_ahead():
    server = Server({"why?": "So."}, policy=ServerPolicy(read_ahead=False))
    try:
        body = server.client.post(WARM, json={"messages": [WHY]}).json()
        assert not body["complete"]
        assert "--read-ahead" in body["reason"]
        assert not server.model.held
    finally:
        server.close()


@pytest.mark.parametrize("on_battery", [True, False])
def test_on_battery_nothing_is_read_ahead_unless_it_is_wished(monkeypatch, on_battery):
    monkeypatch.setattr(reading_ahead, "is_on_battery", lambda: on_battery)
    assert reading_ahead.may_read_ahead(None) is not on_battery
    assert reading_ahead.may_read_ahead(True)
    assert not reading_ahead.may_read_ahead(False)


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": "why?", "tools": 3}])
def test_a_body_that_is_no_conversation_is_refused(server, body):
    assert server.client.post(WARM, json=body).status_code == 400


class Spelled(Bytes):
    """A vocabulary that takes as long to be spelled as the test wants, and counts it."""

    def __init__(self, template):
        super().__init__(template)
        self.times, self.gate = 0, threading.Event()

    def token_bytes(self, token):
        self.gate.wait()
        self.times += token == 255
        return super().token_bytes(token)


@pytest.fixture
def slow_server():
    made = Server(alphabet=Spelled, slots=1, policy=ServerPolicy(waiting=0))
    yield made
    made.model.tokenizer.gate.set()
    made.close()


def rehearsal(server):
    state = server.app.state
    work = reading_ahead.rehearse(state.host, state.preparing, "scripted")
    return asyncio.run_coroutine_threadsafe(work, server.loop)


def test_a_rehearsal_leaves_less_to_the_first_request_with_tools_and_runs_nothing(slow_server):
    tokenizer = slow_server.model.tokenizer
    rehearsal(slow_server).result()
    assert not slow_server.app.state.host.loaded  # nor does it load a model
    slow_server.client.post("/models/load", json={"model": "scripted"})
    until(lambda: slow_server.app.state.host.loaded)
    rehearsing = rehearsal(slow_server)
    assert slow_server.client.get("/health").is_success
    assert slow_server.app.state.host.loaded["scripted"].users == 0  # it takes no place
    tokenizer.gate.set()
    rehearsing.result()
    assert (tokenizer.times, slow_server.model.forwards) == (1, 0)
    ask(slow_server, WHY, tools=[LOOK])
    assert tokenizer.times == 1

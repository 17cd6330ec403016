"""Large requests: bounded before they cost, and nobody waits for those of others."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from localspec.apps.server.preparing import MAX_WAITING
from localspec.base.interruption import Interrupted, check_patience
from tests.apps.server.raw import ask
from tests.apps.server.scripted import Bytes, Server
from tests.apps.server.test_load import until

CHAT, TEXT, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
USER = {"role": "user", "content": "x"}
TURNS = [USER, {"role": "assistant", "content": "y"}]
HOLD = "hold on"  # a word at which the tokenizer of these tests stops
PLENTY = "word " * 80_000  # 400 kB, which is large and does not fit
LARGE = {"metadata": {"a": "word " * 80_000}}  # a request that is large whatever it says
TOOL = {"type": "function", "function": {"name": "f"}}


def tool(number: int) -> dict[str, object]:
    """One of many, whose argument is one of 1,000 words."""
    words = [f"word {at} of {number}" for at in range(1000)]
    parameters = {"type": "object", "properties": {"a": {"enum": words}}, "required": ["a"]}
    return {"type": "function", "function": {"name": f"f{number}", "parameters": parameters}}


class Held(Bytes):
    """Tokenises a word only once that is allowed, or is given up meanwhile."""

    def __init__(self, template: str) -> None:
        super().__init__(template)
        self.go, self.asked, self.given_up = threading.Event(), 0, 0

    def encode(self, text: str, *, special: bool = False):
        if HOLD in text:
            self.asked += 1
            try:
                while not self.go.wait(0.01):
                    check_patience()
            except Interrupted:
                self.given_up += 1
                raise
        return super().encode(text, special=special)


class Deaf(Held):
    """Goes on though it was given up, as one long call of llama.cpp does."""

    def encode(self, text: str, *, special: bool = False):
        if HOLD in text:
            self.asked += 1
            self.go.wait()
        return Bytes.encode(self, text, special=special)


@pytest.fixture
def deaf():
    made = Server(alphabet=Deaf)
    yield made
    made.model.tokenizer.go.set()
    made.close()


@pytest.fixture
def held():
    made = Server(alphabet=Held)
    yield made
    made.model.tokenizer.go.set()
    made.close()


def chat(text: str = "hello", **more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}


MANY = [
    (CHAT, chat(metadata=[{"a": []}] * 80_000), "more than 100,000 objects and lists"),
    (CHAT, chat(metadata=[[0] * 10] * 20_000), "metadata has 20,000 entries; it may have 10,000"),
    (CHAT, chat(**{f"f{number}": 1 for number in range(1001)}), "1,003 fields; it may have 1,000"),
    (CHAT, chat(logit_bias={str(n): 1 for n in range(9000)}), "logit_bias has 9,000 entries"),
    (CHAT, chat(logit_bias=[[n, 1] for n in range(9000)]), "it may have 8,192"),
    (CHAT, chat(tools=[TOOL] * 2001), "tools has 2,001 entries; it may have 2,000"),
    (CHAT, chat(tools=json.dumps([{"a": []}] * 80_000)), "more than 100,000 objects"),
    (CHAT, chat(tools=[tool(number) for number in range(16)]), "16 tools make a grammar of"),
    (CHAT, chat(samplers="k" * 1_000_000), "samplers"),
    (CHAT, {"messages": TURNS * 5001}, "messages has 10,002 entries; it may have 10,000"),
    (CHAT, chat(stop=[[]] * 20_000), "stop has 20,000 entries"),
    (MESSAGES, {"max_tokens": 1, "messages": TURNS * 5001}, "messages has 10,002 entries"),
    ("/v1/responses", {"input": TURNS * 5001}, "10,002 entries"),
    ("/api/chat", {"model": "scripted", "messages": TURNS * 5001}, "10,002 entries"),
    (TEXT, {"prompt": [1] * ((1 << 20) + 1)}, "prompt has 1,048,577 entries"),
    ("/completion", {"prompt": [1] * 100_000 + [{}]}, "prompt"),
]


@pytest.mark.parametrize(("path", "body", "said"), MANY)
def test_a_request_with_too_much_of_anything_is_refused_by_both_numbers(server, path, body, said):
    answer = server.client.post(path, json=body)
    assert answer.status_code == 400
    assert said in answer.text
    assert len(answer.text) < 600


ARGUMENTS = json.dumps({"a": [[]] * 120_000})
CALL = {"type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}


def test_arguments_that_a_client_sends_back_are_counted_too(server):
    turn = {"role": "assistant", "tool_calls": [CALL]}
    answer = server.client.post(CHAT, json={"messages": [USER, turn, USER]})
    assert answer.status_code == 400
    assert "more than 100,000 objects and lists" in answer.text


TOO_LONG = [
    (CHAT, chat(PLENTY)),
    (MESSAGES, {"max_tokens": 1, "messages": [{"role": "user", "content": PLENTY}]}),
    ("/v1/responses", {"input": PLENTY}),
    ("/api/chat", {"model": "scripted", "messages": [{"role": "user", "content": PLENTY}]}),
    (TEXT, {"prompt": PLENTY}),
    ("/completion", {"prompt": PLENTY}),
]


@pytest.mark.parametrize(("path", "body"), TOO_LONG)
def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenised(held, path, body):
    held.ask("hello")
    body = json.loads(json.dumps(body).replace(PLENTY, HOLD + PLENTY))
    answer = held.client.post(path, json=body)
    assert answer.status_code == 400
    assert "prompt is too long: it has " in answer.text  # clients know the error by its words
    assert (
        "bytes; this model was loaded for 8,192 tokens, which hold 114,688 at most" in answer.text
    )
    assert held.model.tokenizer.asked == 0


def test_nobody_waits_for_the_large_requests_of_others(held):
    held.ask("hello")
    lines = [ask(held.address, chat(HOLD, **LARGE)) for _ in range(MAX_WAITING - 1)]
    until(lambda: held.model.tokenizer.asked == 1)
    assert held.client.get("/health").status_code == 200
    assert held.ask("hello") == "You said: hello"
    assert held.model.tokenizer.asked == 1  # the others wait for it
    held.model.tokenizer.go.set()
    for line in lines:
        with line:
            assert b" 200 " in line.recv(100)


def test_work_for_a_client_that_has_left_ends(held):
    held.ask("hello")
    with ask(held.address, chat(HOLD)), ask(held.address, chat(HOLD, **LARGE)):
        until(lambda: held.model.tokenizer.asked == 2)
    until(lambda: held.model.tokenizer.given_up == 2)
    assert held.ask("hello") == "You said: hello"


@pytest.mark.parametrize("more", [{}, LARGE], ids=["small", "large"])
def test_a_model_stays_until_the_thread_of_a_client_that_has_left_is_done(deaf, more):
    tokenizer, host = deaf.model.tokenizer, deaf.app.state.host
    deaf.ask("hello")
    with ask(deaf.address, chat(HOLD, **more)):
        until(lambda: tokenizer.asked)
    with pytest.raises(httpx.ReadTimeout):  # while it is heard that the client has left
        deaf.client.post(CHAT, json=chat(HOLD), timeout=0.5)
    assert deaf.client.post("/models/unload", json={"model": "scripted"}).json()["requests"] == 2
    assert host.loaded["scripted"].users == 2
    assert deaf.unloads == []
    tokenizer.go.set()
    until(lambda: deaf.unloads == ["scripted"])


def test_a_large_request_whose_client_leaves_does_not_wait_for_its_turn(deaf):
    preparing = deaf.app.state.preparing
    deaf.ask("hello")
    with ask(deaf.address, chat(HOLD, **LARGE)):
        until(lambda: deaf.model.tokenizer.asked)
        with ask(deaf.address, chat(HOLD, **LARGE)):
            until(lambda: preparing.waiting == 2)
        until(lambda: preparing.waiting == 1)
        deaf.model.tokenizer.go.set()


def test_only_so_many_large_requests_wait(held):
    held.ask("hello")
    body = json.dumps(chat(HOLD, **LARGE))
    with ThreadPoolExecutor(MAX_WAITING + 2) as pool:
        sent = []
        for _ in range(MAX_WAITING + 2):
            sent.append(pool.submit(httpx.post, held.address + CHAT, content=body, timeout=60))
            until(lambda: held.model.tokenizer.asked == 1)  # the first keeps all others waiting
        until(lambda: sum(request.done() for request in sent) == 2)
        held.model.tokenizer.go.set()
    statuses = sorted(request.result().status_code for request in sent)
    assert statuses == [200] * MAX_WAITING + [503] * 2


def test_a_long_conversation_is_cut_for_clients_of_ollama_though_it_could_never_fit(server):
    turns = [{"role": "user", "content": PLENTY}, *TURNS[1:], {"role": "user", "content": "hello"}]
    answer = server.client.post(
        "/api/chat", json={"model": "scripted", "messages": turns, "stream": False}
    )
    assert answer.json()["message"]["content"] == "You said: hello"


def test_a_prediction_is_tokenised_as_far_as_a_reply_could_follow_it(held):
    held.model.tokenizer.go.set()
    far = "x" * 4_000_000 + HOLD
    answer = held.client.post(CHAT, json=chat(prediction={"content": far}))
    assert answer.status_code == 200
    assert held.model.tokenizer.asked == 0


def test_bodies_in_other_encodings_are_bounded_too(server):
    text = "\u2200" + "[" * 400  # in UTF-16 the first has the byte of a quotation mark
    headers = {"content-type": "application/json"}
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        body = json.dumps(chat(text), ensure_ascii=False).encode(encoding)
        answer = server.client.post(CHAT, content=body, headers=headers).json()
        assert answer["choices"][0]["message"]["content"] == f"You said: {text}"
        deep = '{"messages": "\u2200", "a": ' + "[" * 400
        answer = server.client.post(CHAT, content=deep.encode(encoding), headers=headers)
        assert "more than 200 levels" in answer.text


def test_a_million_tokens_are_told_in_parts(server):
    text = "abc" * 10_000
    plain = server.client.post("/tokenize", json={"content": text}).json()["tokens"]
    pieces = server.client.post("/tokenize", json={"content": text, "with_pieces": True}).json()
    assert plain == list(text.encode())
    assert pieces["tokens"] == [{"id": each, "piece": chr(each)} for each in plain]
    assert server.client.post("/tokenize", json={"content": ""}).json()["tokens"] == []

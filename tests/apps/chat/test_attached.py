"""A server as the one who answers: just as a model in this process, and whatever it does."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pytest

from localspec.apps.chat.hearing import hear
from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.safety import Rules
from localspec.base.errors import BackendError, LocalSpecError, PromptTooLong, UsageError
from localspec.console.speakers.local import LocalSpeaker
from localspec.console.speakers.server import Attached, AttachedServer
from localspec.console.speakers.speaker import Ended
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.repetition import HINT
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.scripted import TEMPLATE, Bytes, Server, script
from tests.apps.server.seeing import seeing, texts_and_pictures
from tests.waiting import until

THINKING = "{# <think> </think> #}" + TEMPLATE
SAID = "Größe 😀 in the line of the line of the line\u2028and \x85 the \x0c line of it. "
BEGIN = 258  # what every prompt begins with
REPLIES = {
    "long": SAID * 6,
    "why?": "<think>\nLet me see: 😀.\n</think>\n\nBecause of the line of the line of the line.",
    "one": '{"name": "Größe", "size": 12}',
    "held": "a b a b a b ST",
    "again and again": "a b a b a b a b a b a b a b a b STOP and more",
    "loop": "the line again\n" * 60,
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
WILD = Sampling(temperature=2, repetition=1.5, top_k=40)
PLAIN = Settings(max_tokens=200)


def usual(_: Sampling) -> Settings:
    return PLAIN


def said(text: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": text}


@pytest.fixture(scope="module")
def thinker():
    made = Server(dict(REPLIES), template=THINKING, policy=ServerPolicy(read_ahead=False))
    made.model.tokenizer.bos, made.model.tokenizer.starts = BEGIN, True
    yield made
    made.close()


@pytest.fixture(scope="module")
def attached(thinker):
    return AttachedServer(thinker.address, "", usual).open("scripted")


@pytest.fixture(scope="module")
def local():
    tokenizer = Bytes(THINKING)
    tokenizer.bos, tokenizer.starts = BEGIN, True
    model = ScriptedModel(script(tokenizer, REPLIES), tokenizer)
    model.context = 8192
    proposers = {
        "forced": ForcedProposer(),
        "prediction": PredictionProposer(),
        "suffix": SuffixProposer(),
    }
    with Runtime(Engine(model, FirstOf(proposers), 4)) as runtime:
        yield LocalSpeaker("scripted", runtime)


def answered(answer):
    pieces = []
    while not isinstance(piece := answer.next(10.0), Ended):
        assert piece is not None, "nothing came for ten seconds"
        pieces.append(piece)
    return pieces, piece


def text_of(pieces) -> str:
    return "".join(piece.text for piece in pieces if piece.kind == "answer")


def timeless(ended: Ended) -> Ended:
    return replace(ended, figures=replace(ended.figures, first_seconds=None, per_second=None))


@pytest.mark.parametrize(
    ("messages", "settings"),
    [
        ([said("long")], PLAIN),
        ([said("Speak.", "system"), said("long")], PLAIN),
        ([said("Hi!"), said("You said: Hi!", "assistant"), said("How are you?")], PLAIN),
        ([said("why?")], PLAIN),
        ([said("why?")], replace(PLAIN, reasoning_budget=6)),
        ([said("why?")], replace(PLAIN, reasoning_budget=2, reasoning_budget_message=" Now.")),
        ([said("one")], replace(PLAIN, grammar=Grammar("json_schema", json.dumps(SCHEMA)))),
        ([said("long")], replace(PLAIN, prediction=SAID * 6)),
        ([said("long")], replace(PLAIN, prediction="the line " * 30, proposers=("prediction",))),
        ([said("long")], replace(PLAIN, depth=0)),
        ([said("long")], replace(PLAIN, proposers=())),
        ([said("long")], replace(PLAIN, depth=2, proposers=("suffix",))),
        ([said("again and again")], replace(PLAIN, stop=("STOP", "b STILL"))),
        ([said("long")], replace(PLAIN, banned_strings=("LINE", "ö"))),
        ([said("held")], replace(PLAIN, stop=("STOP",))),  # whose end is held back until it ends
        ([said("long")], replace(PLAIN, max_tokens=3)),  # which ends within a letter
        ([said("long")], replace(PLAIN, max_tokens=80, sampling=WILD, seed=7)),
        ([said("long")], replace(PLAIN, sampling=Sampling(repetition=1.2, presence=2), seed=1)),
        ([said("again and again")], replace(PLAIN, ignore_end=True, max_tokens=80)),
    ],
)
def test_an_answer_is_the_same_piece_by_piece_from_here_and_from_a_server(
    local, attached, messages, settings
):
    here, ended_here = answered(local.ask(messages, settings))
    there, ended_there = answered(attached.ask(messages, settings))
    assert there == here
    assert timeless(ended_there) == timeless(ended_here)
    assert ended_here.figures.rounds == sum(piece.round is not None for piece in here) > 0
    assert any(piece.spans for piece in here)
    assert attached.count(messages) == local.count(messages) == ended_here.figures.prompt


def test_wishes_reach_the_server(local, attached):
    def ask(speaker, **wishes):
        pieces, ended = answered(speaker.ask([said("long")], replace(PLAIN, **wishes)))
        return text_of(pieces), ended

    assert ask(attached, max_tokens=9)[1].finish == "length"
    assert ask(attached, stop=("line",))[0] == "Größe 😀 in the "
    assert "line" not in ask(attached, banned_strings=("line",))[0]
    assert ask(attached, depth=0)[1].figures.drafted == 0
    assert set(ask(attached)[1].figures.by_source) == {"target", "suffix"}
    assert ask(attached, sampling=WILD, seed=1) != ask(attached, sampling=WILD, seed=2)
    guesses = ask(attached, prediction=REPLIES["long"])[1].figures.guesses["prediction"]
    assert sum(each.accepted for each in guesses) > 50


def test_an_answer_that_repeats_itself_until_it_is_cut_comes_with_a_hint(local, attached, thinker):
    for speaker in (local, attached):
        assert list(answered(speaker.ask([said("loop")], PLAIN))[1].notices) == [HINT]
        for whole in ([said("loop")], replace(PLAIN, max_tokens=1000)), ([said("long")], PLAIN):
            assert not answered(speaker.ask(*whole))[1].notices
    body = {"messages": [said("loop")], "max_tokens": 200, "stream": True}
    assert HINT not in thinker.client.post("/v1/chat/completions", json=body).text


def test_a_way_to_draw_that_does_nothing_is_a_wish_too(thinker, local):
    """A parameter that is left out would follow the model's makers."""
    offer = thinker.app.state.host.offers["scripted"]
    strict = replace(offer, name="strict", usual=Sampling(top_k=1))
    thinker.app.state.host.offers["strict"] = strict
    settings = replace(PLAIN, sampling=WILD, seed=7, max_tokens=50)
    pieces, _ = answered(
        AttachedServer(thinker.address, "", usual).open("strict").ask([said("x")], settings)
    )
    assert pieces == answered(local.ask([said("x")], settings))[0]
    del thinker.app.state.host.offers["strict"]


def test_the_choice_about_thinking_reaches_the_chat_template():
    template = "{{ '' if enable_thinking is defined and not enable_thinking else 'Think.' }}"
    tokenizer = Bytes(template + THINKING)
    model = ScriptedModel(script(tokenizer, {}), tokenizer)
    model.context = 8192
    server = Server({}, template=template + THINKING)
    with closing(server), Runtime(Engine(model, SuffixProposer(), 4)) as runtime:
        here = LocalSpeaker("scripted", runtime)
        for speaker in (here, AttachedServer(server.address, "", usual).open("scripted")):
            prompts = []
            for think in (None, True, False):
                _, ended = answered(speaker.ask([said("Hi!")], PLAIN, think=think))
                prompts.append(ended.figures.prompt)
            assert prompts[0] == prompts[1] == prompts[2] + len("Think.")
        assert here.thinks


def test_a_conversation_is_read_ahead_without_the_thoughts_that_its_prompt_will_lack():
    template = "{# <think> </think> #}" + TEMPLATE
    tokenizer = Bytes(template)
    model = ScriptedModel(script(tokenizer, {}), tokenizer)
    model.context = 8192
    with Runtime(Engine(model, SuffixProposer(), 4)) as runtime:
        here = LocalSpeaker("scripted", runtime)
        first = said("a long question " * 20)
        reply = {**said("So.", "assistant"), "reasoning_content": "hm"}
        here.read_ahead([first, reply], PLAIN)
        until(lambda: len(model.held.get(0, [])) > len(first["content"]))
        _, ended = answered(here.ask([first, reply, said("Why?")], PLAIN))
        new = tokenizer.encode("Why?<|im_end|>\n<|im_start|>assistant\n", special=True)
        assert ended.figures.prompt - ended.figures.cached == len(new)


def test_models_are_listed_checked_and_loaded_with_their_context(thinker):
    offers = thinker.app.state.host.offers
    offers["large"] = replace(offers["scripted"], name="large", context=1 << 20)
    source = AttachedServer(f"{thinker.address}/v1/", "", usual)
    assert source.names() == ["scripted", "large"]
    assert source.open("large").context == 8192  # of 1,048,576: as it is loaded, not as it could be
    del offers["large"]
    with pytest.raises(UsageError, match="has no large; it has: scripted"):
        source.open("large")
    assert source.names() == ["scripted"]
    assert source.open("scripted").about == (f"scripted at {thinker.address}",)


def test_what_is_too_long_is_refused_with_both_numbers(attached):
    question = [said("x" * 9000)]
    assert attached.count(question) > attached.context == 8192
    with pytest.raises(PromptTooLong, match=r"9\d{3} tokens > 8192"):
        answered(attached.ask(question, PLAIN))
    assert attached.count([said("x" * (1 << 20))]) is None  # more than the server likes to count


def test_how_far_a_long_prompt_is_read_is_told():
    server = Server(pause=0.03)
    with closing(server):
        answer = (
            AttachedServer(server.address, "", usual)
            .open("scripted")
            .ask([said("x" * 1600)], PLAIN)
        )
        read = []
        while not isinstance(first := answer.next(0.05), Ended):
            if first and first.text:
                break
            read.append(answer.read)
        answer.cancel()
        shares = [each for each in read if each is not None]
        assert shares == sorted(shares)
        assert len(set(shares)) > 1
        assert 0 < shares[-1] < 1


def test_a_key_is_given_where_one_is_wanted():
    server = Server(policy=ServerPolicy(rules=Rules(keys=("secret",))))
    with closing(server):
        assert AttachedServer(server.address, "secret", usual).names() == ["scripted"]
        for key in ("", "wrong"):
            with pytest.raises(UsageError, match="wants a key: give --key"):
                AttachedServer(server.address, key, usual)
    with pytest.raises(UsageError, match="visible ASCII"):
        AttachedServer(server.address, "schlüssel", usual)
    with pytest.raises(UsageError, match="visible ASCII"):
        AttachedServer(server.address, "a\r\nhost: b", usual)


def listeners() -> int:
    return sum(each.name == "localspec-attached" for each in threading.enumerate())


ON_AND_ON = "on and on " * 500


@pytest.fixture(scope="module")
def slow():
    made = Server({"go on": ON_AND_ON}, pause=0.01, slots=2)
    yield made
    made.close()


def test_who_stops_gets_what_was_said_and_frees_the_slot(slow):
    speaker = AttachedServer(slow.address, "", usual).open("scripted")
    answer = speaker.ask([said("go on")], Settings())
    pieces = []
    while len(pieces) < 5:
        pieces.append(answer.next(5.0))
    answer.cancel()
    rest, ended = answered(answer)
    assert ended.finish == "cancelled"
    assert ended.figures.rounds == sum(each.round is not None for each in [*pieces, *rest])
    text = text_of([*pieces, *rest])
    assert ON_AND_ON.startswith(text)
    assert len(text) < len(ON_AND_ON)
    until(lambda: slow.idle and not listeners())


def test_fifty_answers_can_be_stopped_at_any_time_and_two_chats_go_on(slow):
    here, there = (AttachedServer(slow.address, "", usual).open("scripted") for _ in range(2))
    other = there.ask([said("Hello")], PLAIN)
    for number in range(50):
        answer = here.ask([said("go on")], Settings())
        answer.next(0.001 * number)
        answer.cancel()
        answer.cancel()
    assert text_of(answered(other)[0]) == "You said: Hello"
    until(lambda: slow.idle and not listeners())
    assert text_of(answered(here.ask([said("Hello")], PLAIN))[0]) == "You said: Hello"


class Unseen:
    """Shows nothing, and is interrupted when something comes."""

    def __init__(self) -> None:
        self.pieces = 0

    def add(self, piece) -> None:
        self.pieces += 1
        if self.pieces == 1:
            signal.raise_signal(signal.SIGINT)

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def wait(self, read) -> float:
        return 0.02


def test_ctrl_c_stops_an_answer_of_a_server_in_the_middle(slow):
    speaker = AttachedServer(slow.address, "", usual).open("scripted")
    heard = hear(speaker.ask([said("go on")], Settings()), Unseen())
    assert heard.ended.finish == "cancelled"
    assert ON_AND_ON.startswith(heard.text)
    until(lambda: slow.idle and not listeners())


# Servers that are not ours, or are broken.

TLS = b"\x16"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
MODELS = HEAD + b'{"data": [{"id": "other"}]}'


def refusing(status: str, body: bytes = b"", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status.encode() + b"\r\n" + more + b"\r\n" + body


def events(*chunks: object) -> bytes:
    text = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + text


def chunk(text: str, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}}], **more}


LAST = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
DONE = b"data: [DONE]\n\n"


class Raw:
    """Answers each path with bytes, and hangs up; None: it says nothing."""

    def __init__(self, listed: bytes | None, streamed: bytes | None = b"") -> None:
        self.asked: list[bytes] = []
        self._answers = {b"GET": listed, b"POST": streamed}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            line.settimeout(60)
            asked = b""
            while b"\r\n\r\n" not in asked and asked[:1] != TLS and (more := line.recv(1 << 16)):
                asked += more
            head, _, body = asked.partition(b"\r\n\r\n")
            size = re.search(rb"content-length: (\d+)", head.lower())
            while size and len(body) < int(size[1]) and (more := line.recv(1 << 16)):
                body += more
            self.asked.append(head + b"\r\n\r\n" + body)
            answer = self._answers.get(head.partition(b" ")[0], b"")
            if answer is None:
                while line.recv(1 << 16):  # until it is left
                    pass
                self.asked.append(b"left")
            else:
                line.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # which ends the waiting for more
        self._listener.close()


@contextmanager
def raw(listed: bytes | None, streamed: bytes | None = b""):
    with closing(Raw(listed, streamed)) as made:
        yield made


def stranger(streamed: bytes):
    """All that is heard of a server that is not ours."""
    with raw(MODELS, streamed) as server:
        return answered(
            AttachedServer(server.address, "", usual).open("other").ask([said("Hi")], PLAIN)
        )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "the connection to ADDRESS failed: "),
        (b"220 mail.example ESMTP\r\n", "the connection to ADDRESS failed: "),
        (b"\x00\xff" * 2000, "the connection to ADDRESS failed: "),
        (refusing("200 OK", b"<html>Welcome!</html>"), "ADDRESS sends something that is no JSON"),
        (HEAD + b'{"data": [{"id": "ot', "ADDRESS sends something that is no JSON"),
        (HEAD + b"[" * 100_000, "ADDRESS sends something that is no JSON"),
        (HEAD + b"\xff\xfe{}", "ADDRESS sends something that is no JSON"),
        (HEAD + b"[1, 2]", "ADDRESS lists no models at /v1/models"),
        (HEAD + b'{"data": []}', "ADDRESS lists no models at /v1/models"),
        (HEAD + b'{"data": [1, {"id": 5}, {"id": ""}]}', "ADDRESS lists no models"),
        (HEAD + b" " * (65 << 20), "ADDRESS sends over 67,108,864 bytes in one piece"),
        (refusing("307 Go", more=b"location: http://b/\r\n"), "ADDRESS sends us to http://b/: att"),
        (refusing("401 No"), "ADDRESS wants a key: give --key"),
        (refusing("403 No", b"<html>"), "ADDRESS does not let us in"),
        (refusing("404 No"), "ADDRESS has no such path: is it the address of an OpenAI-like API?"),
        (refusing("404 No", b'{"detail": "Not Found"}'), "Not Found"),
        (refusing("429 No", b"[[[["), "ADDRESS is asked too much: try again later"),
        (refusing("503 No"), "ADDRESS is busy: try again later"),
        (refusing("503 No", b'{"error": "out of\\nplaces"}'), "out of places"),
        (refusing("500 No", b'{"error": {"message": "oh no"}}'), "oh no"),
        (refusing("418 No", b'{"error": {"message": 5}}'), "ADDRESS fails with status 418"),
    ],
)
def test_a_server_that_cannot_be_used_is_told_of_in_one_sentence(answer, message):
    with raw(answer) as server, pytest.raises(LocalSpecError) as raised:
        AttachedServer(server.address, "", usual)
    assert str(raised.value).startswith(message.replace("ADDRESS", server.address))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "address", ["", "http://", "ftp://here", "http://here:port", "http://[::1", "::1"]
)
def test_nonsense_is_no_address(address):
    with pytest.raises(UsageError, match=re.escape(repr(address))):
        AttachedServer(address, "", usual)


def test_where_nobody_answers_that_is_said():
    with raw(MODELS) as server:
        pass
    with pytest.raises(BackendError, match=f"no server answers at {server.address}: .*refused"):
        AttachedServer(server.address, "", usual)
    with (
        raw(MODELS) as server,
        pytest.raises(BackendError, match=r"no server answers at https://.*SSL"),
    ):
        AttachedServer(server.address.replace("http", "https"), "", usual)


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "//"])
def test_an_address_may_be_written_in_many_ways(ending):
    with raw(MODELS) as server:
        for address in (server.address, server.address.removeprefix("http://")):
            assert AttachedServer(address + ending, "", usual).names() == ["other"]
        assert all(asked.startswith(b"GET /v1/models HTTP") for asked in server.asked)


def test_a_server_of_the_sixth_version_can_be_asked():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]

        def answer():
            line, _ = listener.accept()
            with line:
                line.recv(1 << 16)
                line.sendall(MODELS)

        threading.Thread(target=answer, daemon=True).start()
        assert AttachedServer(f"[::1]:{port}", "", usual).names() == ["other"]


def test_no_proxy_leads_to_this_machine(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with raw(MODELS) as server:
        for host in ("127.0.0.1", "localhost"):
            address = server.address.replace("127.0.0.1", host)
            assert AttachedServer(address, "", usual).names() == ["other"]
    with pytest.raises(BackendError, match=r"no server answers at http://far\.example"):
        AttachedServer("http://far.example", "", usual)  # by the proxy, which is not there
    monkeypatch.setenv("all_proxy", "nonsense://here")
    with pytest.raises(UsageError, match="cannot be asked"):
        AttachedServer("ftp.example", "", usual)


def test_a_server_that_is_not_ours_is_asked_nothing_that_it_may_not_know():
    stream = events(chunk("Good "), chunk("day."), LAST, {"choices": [], "usage": None}) + DONE
    with raw(MODELS, stream) as server:
        speaker = AttachedServer(server.address, "", usual).open("other")
        assert speaker.context == 0
        assert speaker.count([said("Hi")]) is None
        settings = replace(PLAIN, sampling=Sampling(top_p=0.5), depth=3, proposers=("ngram",))
        pieces, ended = answered(speaker.ask([said("Hi")], settings))
        asked = json.loads(server.asked[-1].partition(b"\r\n\r\n")[2])
    assert asked == {
        "model": "other",
        "messages": [said("Hi")],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "top_p": 0.5,
        "max_tokens": 200,
    }
    assert text_of(pieces) == "Good day."
    assert ended.figures.tokens == 2
    assert not ended.figures.rounds
    assert not ended.figures.by_source
    assert ended.figures.first_seconds < 5


def test_llama_cpp_tells_its_context_and_how_far_it_reads():
    listed = (
        HEAD
        + json.dumps(
            {
                "data": [{"id": "other", "owned_by": "llamacpp"}],
                "default_generation_settings": {"n_ctx": 4096},
            }
        ).encode()
    )
    progress = {"total": 237, "cache": 0, "processed": 128, "time_ms": 181}
    with raw(listed, events(chunk("", prompt_progress=progress), chunk("Hi"), LAST)) as server:
        speaker = AttachedServer(server.address, "", usual).open("other")
        assert speaker.context == 4096
        answer = speaker.ask([said("Hi")], PLAIN)
        assert text_of([answer.next(5.0) or answer.next(5.0)]) == "Hi"
        assert answer.read == 128 / 237
        assert b'"return_progress":true' in server.asked[-1]
        answer.cancel()


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (events(chunk("Good ")), "ADDRESS broke off within the answer"),
        (events(), "ADDRESS sends nothing that is an answer"),
        (refusing("200 OK", b"<html>\n</html>\n"), "ADDRESS sends nothing that is an answer"),
        (HEAD + b'{"choices": []}', "ADDRESS sends nothing that is an answer"),
        (events(chunk("Good "), {"error": {"message": "out of\x1b[2J"}}), "out of\x1b[2J"),
        (events({"error": "oh no"}), "oh no"),
        (events({"error": [1]}), "the server failed in mid-answer"),
        (events() + b"data: {\n\n", "ADDRESS sends something that is no JSON"),
        (events() + b"data: " + b"[" * 100_000 + b"\n", "ADDRESS sends something that is no JSON"),
        (events() + b"data: " + b"1" * 5000 + b"\n", "ADDRESS sends something that is no JSON"),
        (
            events() + b"data: " + b" " * (65 << 20),
            "ADDRESS sends over 67,108,864 bytes in one piece",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n" + events(chunk("Good ")),
            "the connection to ADDRESS failed: ",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nabc",
            "the connection to ADDRESS failed: ",
        ),
        (refusing("404 No", b'{"error": {"message": "no such model"}}'), "no such model"),
    ],
)
def test_a_stream_that_cannot_be_followed_ends_in_one_sentence(stream, message):
    with raw(MODELS, stream) as server:
        answer = AttachedServer(server.address, "", usual).open("other").ask([said("Hi")], PLAIN)
        with pytest.raises(LocalSpecError) as raised:
            answered(answer)
    assert str(raised.value).startswith(message.replace("ADDRESS", server.address))


def test_ends_in_all_ways_are_ends():
    said_so, unsaid = events(chunk("Hi"), LAST), events(chunk("Hi"))
    head, _, body = said_so.partition(b"\r\n\r\n")
    carriages = head + b"\r\n\r\n: hello\r\n\r\n" + body.replace(b"\n", b"\r\n")
    for stream in (said_so + DONE, said_so, carriages, unsaid + DONE):
        pieces, ended = stranger(stream)
        assert (text_of(pieces), ended.finish) == ("Hi", "stop")


def test_a_line_of_ten_megabytes_is_but_a_long_line():
    pieces, _ = stranger(events(chunk("x" * 10_000_000), LAST) + DONE)
    assert len(text_of(pieces)) == 10_000_000


def test_lines_end_in_line_feeds_only():
    """JSON may hold other ends of lines as they are."""
    text = "a\u2028b\u2029c\x85d"
    tokens = json.dumps(chunk(text), ensure_ascii=False).encode()
    assert text_of(stranger(events() + b"data:" + tokens + b"\n\n" + DONE)[0]) == text


def test_a_server_that_never_answers_is_left_at_once():
    with raw(MODELS, None) as server:
        answer = AttachedServer(server.address, "", usual).open("other").ask([said("Hi")], PLAIN)
        assert answer.next(0.05) is None
        until(lambda: server.asked[-1].startswith(b"POST"))
        answer.cancel()
        assert answer.next(5.0).finish == "cancelled"
        until(lambda: server.asked[-1] == b"left" and not listeners())
    with raw(None) as server:
        main = threading.main_thread().ident

        def interrupt() -> None:
            until(lambda: server.asked)
            signal.pthread_kill(main, signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            AttachedServer(server.address, "", usual)


class Props:
    """A connection to a server that tells of the media that its model takes."""

    address = "http://here"

    def __init__(self, props):
        self.props = props

    def ask(self, path, asked=None, seconds=0.0):
        return self.props


@pytest.mark.parametrize(
    ("listed", "props", "sees"),
    [
        ({"architecture": {"input_modalities": ["text", "image"]}}, {}, True),
        ({"architecture": {"input_modalities": ["text"]}}, {}, False),
        ({}, {}, None),
        ({"owned_by": "llamacpp"}, {"modalities": {"vision": True}}, True),
        ({"owned_by": "llamacpp"}, {"modalities": {"vision": False}}, False),
    ],
)
def test_a_server_tells_whether_its_model_takes_pictures(listed, props, sees):
    speaker = Attached(Props(props), "owl", listed)
    assert speaker.sees is sees
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
    content = [part, {"type": "text", "text": "which?"}]
    sent = speaker.sendable([{"role": "user", "content": content}])
    assert sent == [{"role": "user", "content": "which?" if sees is False else content}]


def test_it_is_told_which_models_of_a_server_take_pictures():
    owl = {"id": "owl", "architecture": {"input_modalities": ["text", "image"]}}
    for models, sentence in (
        ([owl, {"id": "mole"}], "these at ADDRESS do: owl"),
        ([{"id": "x"}], ""),
    ):
        with raw(HEAD + json.dumps({"data": models}).encode()) as server:
            who = AttachedServer(server.address, "", usual).who_sees()
            assert who == sentence.replace("ADDRESS", server.address)


def test_pictures_reach_a_server_and_are_seen():
    server = seeing()
    with closing(server):
        speaker = AttachedServer(server.address, "", usual).open("scripted")
        assert speaker.sees
        content = texts_and_pictures("[red]", "which?")
        pieces, ended = answered(speaker.ask([{"role": "user", "content": content}], PLAIN))
    assert text_of(pieces) == "You said: [red]which?"
    assert ended.figures.prompt > 0

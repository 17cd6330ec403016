"""Many requests at once, and clients that go away."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from localspec.apps.server.app import ServerPolicy
from tests.apps.server import raw
from tests.apps.server.scripted import Server
from tests.waiting import until

CHAT = "/v1/chat/completions"
LONG = {"messages": [{"role": "user", "content": "go on " * 500}], "temperature": 0}
HELD = {"messages": [{"role": "user", "content": "go on " * 80}], "temperature": 0}


@pytest.fixture
def small():
    """Two slots, two places to wait, and a model that takes its time until a test has seen it."""
    made = Server(policy=ServerPolicy(waiting=2), pause=0.1, slots=2)
    yield made
    made.close()


def gauge(server, name, **labels):
    """A figure as Prometheus reads it."""
    sample = name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
    for line in server.client.get("/metrics").text.splitlines():
        if line.startswith(sample + " "):
            return float(line.rpartition(" ")[2])
    return 0.0


def counted(server):
    health = server.client.get("/health").json()
    return health["busy"], health["waiting"]


def busy(server):
    return gauge(server, "localspec_slots", model="scripted", state="busy")


def test_who_finds_all_places_taken_is_told_to_come_back(small):
    small.ask("hello")
    with ThreadPoolExecutor(6) as pool:
        send = partial(httpx.post, small.address + CHAT, json=HELD, timeout=60)
        sent = [pool.submit(send) for _ in range(6)]
        until(lambda: sum(request.done() for request in sent) == 2)
        small.model.pause = 0.0
    answers = sorted((request.result() for request in sent), key=lambda each: each.status_code)
    assert [answer.status_code for answer in answers] == [200] * 4 + [503] * 2
    refused = answers[-1]
    assert refused.headers["retry-after"] == "1"
    assert "4 may" in refused.json()["error"]["message"]
    until(lambda: busy(small) == 0)


def test_a_reply_that_takes_too_long_is_given_up():
    hasty = Server(policy=ServerPolicy(reply_seconds=0.3), pause=0.1)
    try:
        answer = hasty.client.post(CHAT, json=LONG)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "timeout"
        stream = hasty.client.post(CHAT, json=LONG | {"stream": True}).text
        assert '"code": "timeout"' in stream
        assert stream.endswith("data: [DONE]\n\n")
        until(lambda: busy(hasty) == 0)
    finally:
        hasty.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_leaves_its_slot(small, stream):
    with raw.ask(small.address, LONG | {"stream": stream}):
        until(lambda: busy(small) == 1)
        before = small.model.forwards
    until(lambda: busy(small) == 0)
    assert small.model.forwards - before < 90  # of more than 600


def test_a_client_that_goes_away_while_it_waits_is_never_answered(small):
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(small.client.post, CHAT, json=HELD) for _ in range(2)]
        until(lambda: busy(small) == 2)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(small.address + CHAT, json=LONG, timeout=0.2)
        until(lambda: gauge(small, "localspec_queue", model="scripted") == 0)
        small.model.pause = 0.0
        assert [each.result().status_code for each in running] == [200, 200]


def test_many_streams_come_whole(server):
    wishes = [f"number {at} " * (1 + at % 5) for at in range(40)]

    def stream(text):
        body = {"messages": [{"role": "user", "content": text}], "stream": True, "temperature": 0}
        lines = httpx.post(server.address + CHAT, json=body, timeout=60).text.splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        return "".join(event["choices"][0]["delta"].get("content", "") for event in events)

    with ThreadPoolExecutor(20) as pool:
        listed = list(pool.map(stream, wishes))
    assert listed == [f"You said: {text.strip()}" for text in wishes]


def test_a_server_that_is_stopped_lets_streams_end_or_tells_them():
    server = Server(pause=0.02)
    said: list[str] = []

    def read():
        said.append(
            httpx.post(server.address + CHAT, json=LONG | {"stream": True}, timeout=30).text
        )

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: busy(server) == 1)
    server.close()
    reader.join()
    assert "the server is shutting down" in said[0]


def test_what_happened_is_counted(server):
    before = gauge(server, "localspec_replies_total", model="scripted", reason="stop")
    server.ask("count this " * 10)
    server.ask("count this " * 10)
    assert gauge(server, "localspec_replies_total", model="scripted", reason="stop") == before + 2
    text = server.client.get("/metrics").text
    for name in ("prefix_hits_total", "drafted_total", "accepted_total", "depth_bucket", "rounds"):
        assert f"localspec_{name}" in text, name
    assert gauge(server, "localspec_slots", model="scripted", state="free") == 8
    assert "localspec_memory_bytes" in text
    assert "localspec_kept_bytes" in text


def test_health_tells_how_many_requests_there_are(small):
    small.ask("hello")
    assert small.client.get("/health").json() == {
        "status": "ok",
        "loaded": ["scripted"],
        "slots": 2,
        "busy": 0,
        "waiting": 0,
    }
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(httpx.post, small.address + CHAT, json=HELD, timeout=60)
        until(lambda: counted(small) == (2, 1))
        small.model.pause = 0.0
    until(lambda: counted(small) == (0, 0))


def test_turns_of_a_conversation_are_named_alike_for_a_balancer(small):
    def named(*messages, **more):
        body = {"messages": list(messages), "max_tokens": 1, **more}
        return small.client.post(CHAT, json=body).headers.get("x-localspec-prefix")

    first = {"role": "user", "content": "Tell me about rivers in the north, and about lakes there."}
    fields = {"role": "assistant", "content": "There are many."}
    other = {"role": "user", "content": "And mountains?"}
    begun = named(first)
    assert len(bytes.fromhex(begun)) == 8
    assert named(first, fields, other) == named(first, stream=True) == begun
    assert named({"role": "user", "content": first["content"].upper()}) != begun
    assert named({"role": "user", "content": "Hi"}) is None

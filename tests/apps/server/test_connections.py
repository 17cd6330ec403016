"""Connections that wait for their client: they are closed in time, and others never are."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.connections import ConnectionLimits, affordable_limits, has_begun
from localspec.apps.server.safety import Rules
from tests.apps.server.scripted import Server
from tests.apps.server.test_listening import CERT, KEY

CHAT = "/v1/chat/completions"
GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n"
QUICK = 9.0  # seconds on a busy machine, within the usual patience with the head of a request
TALK = {"messages": [{"role": "user", "content": "go on " * 120}], "stream": True}


@pytest.fixture(scope="module")
def hasty():
    made = Server(limits=ConnectionLimits(8, 0.5, 1.0), pause=0.01)
    yield made
    made.close()


@pytest.fixture(scope="module")
def crowded():
    made = Server(limits=ConnectionLimits(8), pause=0.01)
    yield made
    made.close()


@pytest.fixture
def lines():
    """Open connections to a server, which are closed after the test."""
    with ExitStack() as stack:

        def opened(server, stream=b""):
            port = int(server.address.rpartition(":")[2])
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            line.sendall(stream)
            return line

        yield opened


def is_closed(line):
    """Tell whether the other side has hung up; what it said before is dropped."""
    while select.select([line], [], [], 0)[0]:
        try:
            if not line.recv(1 << 16):
                return True
        except ConnectionResetError:
            return True
    return False


def seconds_until_closed(line):
    begun = time.monotonic()
    while not is_closed(line):
        assert time.monotonic() < begun + 20
        select.select([line], [], [], 0.1)
    return time.monotonic() - begun


STREAMS = {"none": b"", "half": POST[:20], "no body": POST, "second": GET + GET[:9]}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_who_makes_no_request_is_closed(hasty, lines, stream):
    assert seconds_until_closed(lines(hasty, stream)) < QUICK


def test_a_head_is_looked_at_once_its_body_begins(lines):
    server = Server(policy=ServerPolicy(rules=Rules(keys=("secret",))))
    try:
        waiting = [lines(server, POST) for _ in range(20)]
        for _ in range(20):
            assert httpx.get(server.address + "/health").status_code == 200
        assert len(server.uvicorn.server_state.connections) < 2  # that of the question
        assert not any(map(is_closed, waiting))
        waiting[0].sendall(b"{")
        assert b"401 Unauthorized" in waiting[0].recv(4096)
    finally:
        server.close()


def test_a_client_that_asks_whether_its_body_should_come_hears_so(lines):
    server = Server(policy=ServerPolicy(rules=Rules(keys=("secret",))))
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 2\r\n"
    try:
        stranger = lines(server, head + b"\r\n")
        assert stranger.recv(4096).startswith(b"HTTP/1.1 401 ")
        written = lines(server, head + b"Authorization: Bearer secret\r\n\r\n")
        assert written.recv(4096).startswith(b"HTTP/1.1 100 ")
        written.sendall(b"{}")
        assert written.recv(4096).startswith(b"HTTP/1.1 4")
    finally:
        server.close()


BEGUN = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\n\n",
    b"POST / HTTP/1.1\r\ncontent-length: 00\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
    b"POST / HTTP/1.1\r\ncontent-length: 9\r\nExpect: 100-continue\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1",
    b"\x16\x03\x01",  # TLS
    b"x" * 20_000,
]
NOT_BEGUN = [
    b"",
    b"GET / HTTP/1.1\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    b"POST / HTTP/1.1\ncontent-length:9\n\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
]


def test_a_request_has_begun_when_it_can_be_answered_or_refused():
    assert [request for request in BEGUN if not has_begun(request)] == []
    assert [request for request in NOT_BEGUN if has_begun(request)] == []


def test_a_head_that_comes_byte_by_byte_gains_no_time(hasty, lines):
    line = lines(hasty, GET[:-2] + b"x: ")
    with suppress(OSError):
        for _ in range(60):
            line.sendall(b"x")
            time.sleep(0.05)
    assert is_closed(line)


def test_a_body_that_rests_is_closed_and_a_slow_one_is_not(hasty, lines):
    resting, slow = lines(hasty, POST + b"[" * 9), lines(hasty, POST)
    for _ in range(100):
        slow.sendall(b"[")
        time.sleep(0.02)
    assert b"400 Bad Request" in slow.recv(4096)
    assert seconds_until_closed(resting) < QUICK


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_a_request_for_another_protocol_is_answered_over_http(hasty, caplog, protocol):
    upgrade = {"connection": "Upgrade", "upgrade": protocol, "sec-websocket-version": "13"}
    assert hasty.client.get("/health", headers=upgrade).status_code == 200
    assert hasty.client.get("/llm", headers=upgrade).status_code == 404
    assert "pip install" not in caplog.text


def test_what_was_asked_takes_as_long_as_it_takes(hasty):
    begun = time.monotonic()
    with httpx.stream("POST", hasty.address + CHAT, json=TALK) as answer:
        assert "data: [DONE]" in [*answer.iter_lines()]
    assert time.monotonic() - begun > 1


def test_those_who_wait_longest_give_way_to_new_ones(crowded, lines):
    with httpx.stream("POST", crowded.address + CHAT, json=TALK) as answer:
        waiting = [lines(crowded) for _ in range(7)]
        assert httpx.get(crowded.address + "/health").status_code == 200
        assert seconds_until_closed(waiting[0]) < QUICK
        assert not is_closed(waiting[-1])
        assert "data: [DONE]" in [*answer.iter_lines()]


def test_answers_that_are_not_read_give_way_too(crowded, lines):
    missing = b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\nx: " + b"x" * 900 + b"\r\n\r\n"
    for _ in range(8):
        line = lines(crowded)
        line.settimeout(0.2)
        with suppress(OSError):
            for _ in range(100_000):
                line.sendall(missing * 50)
    assert httpx.get(crowded.address + "/health", timeout=60).status_code == 200


def test_one_that_gives_way_before_its_turn_is_closed(lines):
    server = Server(limits=ConnectionLimits(2))
    try:
        server.loop.call_soon_threadsafe(time.sleep, 0.5)  # so that all are accepted at once
        silent = [lines(server) for _ in range(8)]
        for line in silent[:-2]:
            assert seconds_until_closed(line) < QUICK  # and no socket is left to the collector
        assert not is_closed(silent[-1])
    finally:
        server.close()


def test_who_begins_no_tls_is_closed_and_gives_way(lines):
    server = Server(certificate=(CERT, KEY), limits=ConnectionLimits(4, 1.0))
    try:
        silent = [lines(server) for _ in range(4)]
        with httpx.Client(verify=False) as visitor:
            assert visitor.get(server.address + "/health").status_code == 200
        assert seconds_until_closed(silent[0]) < 0.9
        assert seconds_until_closed(silent[-1]) < QUICK
    finally:
        server.close()


POOR = """
import resource, socket, sys, urllib.request
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
from localspec.apps.server.connections import affordable_limits
from tests.apps.server.scripted import Server
server = Server(limits=affordable_limits())
print(server.address.rpartition(":")[2], server.limits.most, flush=True)
sys.stdin.read()
server.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of descriptors")
def test_a_server_with_few_descriptors_answers_whoever_else_is_connected(lines):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    root = Path(__file__).parents[3]
    process = subprocess.Popen([sys.executable, "-c", POOR], text=True, cwd=root, **pipes)
    port, most = map(int, process.stdout.readline().split())
    assert 10 < most < 40
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    _, errors = process.communicate(timeout=60)
    assert errors == ""


LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 300))
from localspec.base.system import descriptors
few = descriptors.left()
descriptors.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], descriptors.left() - few)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of descriptors")
def test_the_usual_limit_of_descriptors_is_raised_to_what_is_allowed():
    done = subprocess.run([sys.executable, "-c", LIMIT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["300", "236"]


CROWD = """
import resource, socket, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
lines = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(2500)]
print(len(lines), flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_ten_thousand_idle_connections_do_not_hold_up_a_stream():
    server = Server(pause=0.01, limits=affordable_limits())
    port = server.address.rpartition(":")[2]
    heard = []

    def read():
        talk = {**TALK, "messages": [{"role": "user", "content": "go on " * 1000}]}
        with httpx.stream("POST", server.address + CHAT, json=talk, timeout=60) as answer:
            heard.extend(time.monotonic() for _ in answer.iter_lines())

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(3)
    begun = time.monotonic()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", CROWD, port]
    crowds = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    opened = sum(int(crowd.stdout.readline()) for crowd in crowds)
    asked = time.monotonic()
    assert httpx.get(server.address + "/health").status_code == 200
    health = time.monotonic() - asked
    for crowd in crowds:
        crowd.communicate()
    reader.join()
    server.close()
    alone = longest([at for at in heard if at < begun])
    beside = longest([at for at in heard if begun - 1 < at < asked])
    print(f"{opened:,} connections in {asked - begun:.1f} s, {server.limits.most:,} held at most;")
    print(f"longest pause {alone} s alone, {beside} s beside them; /health in {health:.3f} s")
    assert opened == 10_000
    assert beside < max(0.5, 2 * alone)  # a machine that does much besides pauses it, too
    assert health < max(1, 2 * alone)


def longest(times):
    pairs = zip(times[1:], times, strict=False)
    return round(max(later - earlier for later, earlier in pairs), 3)


STUCK = """
import asyncio, socket, time
import uvicorn
from localspec.apps.server.connections import BoundedServer, Connection, ConnectionLimits

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            said = (await receive())["type"]
            if said == "lifespan.shutdown":
                await asyncio.to_thread(time.sleep, 600)
            await send({"type": said + ".complete"})
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun ", "more_body": True})
    try:
        await asyncio.to_thread(time.sleep, 600)
    except asyncio.CancelledError:
        await send({"type": "http.response.body", "body": b"ended"})

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(application, http=Connection, log_config=None, timeout_graceful_shutdown=1)
server = BoundedServer(config, ConnectionLimits(), lambda: None, 3)
asyncio.run(server.serve(sockets=[listener]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_and_then_the_process_whatever_threads_do(number):
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    heard = []
    while not heard:
        with (
            suppress(httpx.ConnectError),
            httpx.stream("GET", f"http://127.0.0.1:{port}") as chunks,
        ):
            for piece in chunks.iter_text():
                heard.append(piece)
                if len(heard) == 1:
                    process.send_signal(number)
    assert "".join(heard) == "begun ended"
    assert process.wait(60) in (-number, 128 + number)
    process.stdout.close()

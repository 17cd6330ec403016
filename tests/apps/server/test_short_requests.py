"""What a short request does not have to wait for: other routes, threads, a second packet."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest
import uvicorn
from starlette.routing import BaseRoute, Match
from uvicorn.server import ServerState

from localspec.apps.server.app import ServerPolicy, application
from localspec.apps.server.connections import Connection
from localspec.apps.server.paths import MeantRoutes
from localspec.apps.server.replies.streaming import Gone, while_listening
from localspec.apps.server.requests.reading import SHORT_BYTES
from tests.apps.server.scripted import Server
from tests.core.vectors.counting import Counting
from tests.core.vectors.offers import offer


class Tried(BaseRoute):
    """Notes the paths for which it was tried."""

    def __init__(self):
        self.paths = []

    def matches(self, scope):
        self.paths.append(scope["path"])
        return Match.NONE, {}


class Written(asyncio.Transport):
    """Notes what was sent in one go."""

    def __init__(self):
        super().__init__()
        self.packets = []

    def write(self, data):
        if data:
            self.packets.append(bytes(data))

    def is_closing(self):
        return False

    def pause_reading(self):
        pass

    resume_reading = close = pause_reading


def test_no_route_is_tried_for_a_path_that_was_asked_for_before():
    app, before, behind = application([], ServerPolicy()), Tried(), Tried()
    [at] = [at for at, route in enumerate(app.routes) if isinstance(route, MeantRoutes)]
    app.router.routes[at:] = [MeantRoutes([before, *app.routes[at + 1 :]]), behind]

    async def ask(path):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get(path)).status_code

    for _ in range(2):
        assert asyncio.run(ask("/v1/models")) == 200
        assert (before.paths, behind.paths) == (["/v1/models"], [])
    assert asyncio.run(ask("/nowhere")) == 404


def test_the_head_of_an_answer_is_sent_with_its_body():
    written = Written()

    async def answer(scope, receive, send):
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    async def ask():
        state = ServerState()
        connection = Connection(uvicorn.Config(answer, log_config=None), state, {})
        connection.connection_made(written)
        for _ in range(2):
            connection.data_received(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            await asyncio.gather(*state.tasks)
        connection.connection_lost(None)

    asyncio.run(ask())
    assert len(written.packets) == 2
    for packet in written.packets:
        assert packet.startswith(b"HTTP/1.1 200 ")
        assert packet.endswith(b"\r\n\r\nok")


def test_a_short_text_is_read_without_a_thread_and_a_long_one_on_one():
    class Threads(Counting):
        def text(self, text, most=None):
            threads.append(threading.get_ident())
            return super().text(text, most)

    async def loop_thread():
        return threading.get_ident()

    threads, model = [], Threads()
    model.context = model.batch = 2 * SHORT_BYTES
    server = Server(beside=[offer("embedder", model)])
    try:
        for text in ("short", "x" * SHORT_BYTES):
            answer = server.client.post("/v1/embeddings", json={"input": text})
            assert answer.status_code == 200, answer.text
        own = asyncio.run_coroutine_threadsafe(loop_thread(), server.loop).result(30)
    finally:
        server.close()
    assert threads[0] == own
    assert threads[1] != own


def listening(work, *messages):
    """Do some work for a client that sends these messages and then listens."""
    waiting = list(messages)

    async def receive():
        if not waiting:
            await asyncio.Event().wait()
        return {"type": waiting.pop(0)}

    return while_listening(receive, work)


def test_work_is_cancelled_when_its_client_leaves():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(Gone):
        asyncio.run(listening(work(), "http.request", "http.disconnect"))
    assert ended == [True]


def test_work_that_is_done_counts_and_so_does_its_error():
    async def work():
        await asyncio.sleep(0)
        return 7

    async def fail():
        raise ValueError("seven")

    assert asyncio.run(listening(work(), "http.request")) == 7
    with pytest.raises(ValueError, match="seven"):
        asyncio.run(listening(fail()))


def test_a_request_that_is_cancelled_is_not_taken_for_one_whose_client_left():
    async def cancel():
        async def work():
            begun.set()
            await asyncio.Event().wait()

        begun = asyncio.Event()
        request = asyncio.create_task(listening(work()))
        await begun.wait()
        request.cancel()
        await request

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())

"""The server's connections: there are fewer than descriptors, and none waits for ever.

uvicorn closes a connection that rests between two requests, but not one that never makes any, and
accepts more than there are descriptors for. What makes a request is never closed here.

A socket becomes a connection when the head of a request and the beginning of its body have come:
that costs a millisecond of all others' time, and a socket that waits hardly anything.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from asyncio import BaseTransport
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import itemgetter
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from localspec.base.system import descriptors
from localspec.base.system.signals import end_after

MAX_CONNECTIONS = 4096  # connections, at 10 kB each
PAUSE_SECONDS = 0.1  # until one more is accepted where the system could not
ACCEPTED_AT_ONCE = 128  # connections, before other work has its turn
MAX_HEAD_BYTES = 16 << 10  # of which more is left to the parser, which refuses it
END_OF_HEAD = re.compile(rb"\n\r?\n")
BODY_FOLLOWS = re.compile(rb"\n(content-length:[ \t]*0*[1-9]|transfer-encoding:)", re.IGNORECASE)
ASKS_FOR_BODY = re.compile(rb"\nexpect:", re.IGNORECASE)  # whether it should come at all
GIVING_WAY = 8  # of so many connections without a request, one makes room for a new one


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The number of connections, and how long each may wait for its client."""

    most: int = MAX_CONNECTIONS
    head_seconds: float = 10.0  # for TLS, the head of a request, and the first byte of its body
    body_seconds: float = 30.0  # that a body may rest on its way


def affordable_limits() -> ConnectionLimits:
    """Leave half of the descriptors to files, and to connections that the program makes.

    To be asked once engines are loaded: some change the limit.
    """
    descriptors.raise_limit()
    return ConnectionLimits(max(min(MAX_CONNECTIONS, descriptors.left() // 2), 1))


class JoinedHead(h11.Connection):
    """Hands out the head of an answer with what follows it, so that one packet may hold both."""

    _head = b""

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        data = super().send(event)
        if isinstance(event, h11.Response):
            self._head, data = data or b"", b""
        elif self._head:
            self._head, data = b"", self._head + (data or b"")
        return data


class Connection(H11Protocol):
    """A connection that notes since when it waits for its client."""

    began = heard = 0.0  # when it began to wait for a request, and when something came

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        request: bytes = b"",
    ) -> None:
        """Prepare for a socket of which the beginning of a request has come already."""
        super().__init__(config, server_state, app_state)
        self.conn = JoinedHead(h11.SERVER)
        self._request = request

    def connection_made(self, transport: BaseTransport) -> None:
        self.began = self.heard = self.loop.time()
        super().connection_made(transport)  # type: ignore[arg-type]
        if self._request:
            self.data_received(self._request)
            self._request = b""

    def data_received(self, data: bytes) -> None:
        self.heard = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self.began = self.heard = self.loop.time()
        super().on_response_complete()

    def _should_upgrade(self) -> bool:
        """Answer every request over HTTP; uvicorn would log advice to install WebSockets."""
        return False

    @property
    def gives_way(self) -> bool:
        """Return whether it has no whole request, or a client that does not read the answer."""
        cycle = self.cycle
        lacks = cycle is None or cycle.response_complete or cycle.more_body
        return lacks or self.flow.write_paused

    def is_late(self, now: float, limits: ConnectionLimits) -> bool:
        """Return whether its client had enough time for a head, or for more of a body."""
        cycle = self.cycle
        if cycle is not None and cycle.more_body:
            return not self.flow.read_paused and now - self.heard > limits.body_seconds
        rests = cycle is None or cycle.response_complete
        return rests and now - self.began > limits.head_seconds


class BoundedServer(uvicorn.Server):
    """uvicorn's server, with connections that it accepts and bounds itself."""

    def __init__(
        self,
        config: uvicorn.Config,
        limits: ConnectionLimits,
        end_streams: Callable[[], None],
        grace_seconds: float | None = None,
    ) -> None:
        """Prepare to serve; `grace_seconds` after a signal the process ends in any case.

        At the end of the server `end_streams` ends those that would go on for as long as it runs.
        """
        super().__init__(config)
        self._limits = limits
        self._end_streams = end_streams
        self._grace_seconds = grace_seconds
        self._signal = signal.SIGTERM
        self._accepting: list[asyncio.Task[None]] = []
        self._meeting: dict[
            asyncio.Task[None], float
        ] = {}  # those that make no request yet, since when

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        for listener in sockets or []:
            listener.setblocking(False)
            listener.listen(self.config.backlog)
            self._accepting.append(asyncio.create_task(self._accept(listener)))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signal = signal.Signals(sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._grace_seconds is not None:
            end_after(self._grace_seconds, self._signal)
        for task in (*self._accepting, *self._meeting):
            task.cancel()
        self._end_streams()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # a second
            self._close_late()
        return await super().on_tick(counter)

    @property
    def _open(self) -> list[Connection]:
        """List the open connections, all of the one kind that `_connection` makes."""
        connections = self.server_state.connections
        return [held for held in connections if isinstance(held, Connection)]

    def _close_late(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self._open:
            if connection.is_late(now, self._limits):
                connection.transport.abort()
        for task, began in list(self._meeting.items()):
            if now - began > self._limits.head_seconds:
                self._leave(task)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for number in count(1):
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:  # it has left again, or other parts of the program took all descriptors
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            is_full = len(self.server_state.connections) + len(self._meeting) >= self._limits.most
            if is_full and not self._make_room():
                client.close()
            else:
                task = loop.create_task(self._meet(client))
                self._meeting[task] = loop.time()
                task.add_done_callback(partial(self._note_met, client))
            if is_full or number % ACCEPTED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _meet(self, client: socket.socket) -> None:
        """Make a connection of a socket once a request comes."""
        tls = self.config.ssl
        try:
            request = b"" if tls else await beginning_of_request(client)
            connection = partial(
                Connection, self.config, self.server_state, self.lifespan.state, request
            )
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(connection, client, ssl=tls)
        except OSError:  # it has left, or speaks no TLS
            client.close()

    def _note_met(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._meeting.pop(task, None)
        if task.cancelled():  # perhaps before it began
            client.close()

    def _make_room(self) -> bool:
        """Close connections that wait longest for their client; return whether there were any.

        Where all are being answered it is the newest request: a client may make one after the
        other and hear none out.
        """
        waiting: list[tuple[float, Callable[[], object]]]
        waiting = [(held.began, held.transport.abort) for held in self._open if held.gives_way]
        waiting += [(began, partial(self._leave, task)) for task, began in self._meeting.items()]
        waiting.sort(key=itemgetter(0))
        closing = [close for _, close in waiting[: len(waiting) // GIVING_WAY + 1]]
        if not closing and self._open:
            closing = [max(self._open, key=lambda held: held.began).transport.abort]
        for close in closing:
            close()
        return bool(closing)

    def _leave(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        del self._meeting[task]


async def beginning_of_request(client: socket.socket) -> bytes:
    """Wait for a request that can be answered, or refused, by what has come of it."""
    loop, request = asyncio.get_running_loop(), b""
    while not has_begun(request):
        piece = await loop.sock_recv(client, MAX_HEAD_BYTES)
        if not piece:
            raise ConnectionResetError
        request += piece
    return request


def has_begun(request: bytes) -> bool:
    """Return whether a whole head has come, and something of its body if it has one."""
    end = END_OF_HEAD.search(request)
    if end is None:
        return len(request) > MAX_HEAD_BYTES or (bool(request) and request[:1] <= b" ")
    if end.end() < len(request) or ASKS_FOR_BODY.search(request):
        return True
    return not BODY_FOLLOWS.search(request)

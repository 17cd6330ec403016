"""A way to a worker on which a test hears each message: a proxy on loopback."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

CHUNK = 1 << 16
HEADER = struct.Struct("<BQ")  # of a message to a worker: its kind, and its length

Watch = Callable[[int], object]  # takes the kind of each message to the worker


class WatchedLink:
    """Accepts for a worker, and passes all on, after the watch has heard of it."""

    def __init__(self, worker: str, watch: Watch) -> None:
        host, _, at = worker.rpartition(":")
        self._worker, self._watch = (host, int(at)), watch
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._threads = [begun(self._accept)]

    def _accept(self) -> None:
        with suppress(OSError), self._listener:
            while True:
                client, _ = self._listener.accept()
                self._threads.append(begun(partial(self._carry, client)))

    def _carry(self, client: socket.socket) -> None:
        """Carry one connection until either side ends it."""
        with client, suppress(OSError), socket.create_connection(self._worker) as worker:
            ends = {client, worker}
            self._open |= ends
            for end in ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = begun(partial(pass_on, worker, client, lambda _: None))
            pass_on(client, worker, Messages(self._watch).hear)
            back.join()
            self._open -= ends

    def close(self) -> None:
        for opened in (self._listener, *self._open):
            end_of(opened)
        for thread in self._threads:
            thread.join()


def pass_on(origin: socket.socket, end: socket.socket, hear: Callable[[bytes], object]) -> None:
    with suppress(OSError):
        while data := origin.recv(CHUNK):
            hear(data)
            end.sendall(data)
    for side in (origin, end):  # either is the end of both
        end_of(side)


def begun(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def end_of(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


class Messages:
    """Tells the messages apart that go to a worker."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._begun, self._rest = b"", 0  # of a header; of a message whose header was heard

    def hear(self, data: bytes) -> None:
        while data:
            if self._rest:
                data, self._rest = data[self._rest :], max(self._rest - len(data), 0)
                continue
            needed = HEADER.size - len(self._begun)
            self._begun, data = self._begun + data[:needed], data[needed:]
            if len(self._begun) == HEADER.size:
                kind, self._rest = HEADER.unpack(self._begun)
                self._begun = b""
                self._watch(kind)

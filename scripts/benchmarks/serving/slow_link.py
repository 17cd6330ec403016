"""A way to a worker that takes longer: a proxy on loopback, which delays what passes."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

CHUNK = 1 << 16
HEADER = struct.Struct("<BQ")  # of a message to a worker: its kind, and its length

Watch = Callable[[int], object]  # told the kind of each message to the worker


class SlowLink:
    """Accepts for a worker, and passes all on so many seconds later, each way."""

    def __init__(self, worker: str, seconds: float = 0.0, watch: Watch | None = None) -> None:
        host, _, at = worker.rpartition(":")
        self._worker, self.seconds, self._watch = (host, int(at)), seconds, watch
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.trips = 0  # answers that were waited for
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
            asked, heard = threading.Event(), Messages(self._watch) if self._watch else None
            ways = [
                *self._pass_on(client, worker, partial(self._up, asked, heard)),
                *self._pass_on(worker, client, partial(self._down, asked)),
            ]
            for way in ways:
                way.join()
            self._open -= ends

    def _up(self, asked: threading.Event, heard: Messages | None, data: bytes) -> None:
        asked.set()
        if heard:
            heard.hear(data)

    def _down(self, asked: threading.Event, _: bytes) -> None:
        self.trips += asked.is_set()
        asked.clear()

    def _pass_on(
        self, origin: socket.socket, end: socket.socket, note: Callable[[bytes], object]
    ) -> list[threading.Thread]:
        under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def read() -> None:
            with suppress(OSError):
                while data := origin.recv(CHUNK):
                    note(data)
                    under_way.put((time.perf_counter() + self.seconds, data))
            under_way.put((0.0, b""))

        def write() -> None:
            with suppress(OSError):
                while (item := under_way.get())[1]:
                    time.sleep(max(item[0] - time.perf_counter(), 0.0))
                    end.sendall(item[1])
            for side in (origin, end):  # either is the end of both
                end_of(side)

        return [begun(read), begun(write)]

    def close(self) -> None:
        for opened in (self._listener, *self._open):
            end_of(opened)
        for thread in self._threads:
            thread.join()


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

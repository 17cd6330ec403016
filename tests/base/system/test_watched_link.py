"""The proxy in front of a worker: it changes nothing, and tells messages apart."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

from tests.watched_link import HEADER, WatchedLink


@contextmanager
def echo():
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        link, _ = listener.accept()
        with link:
            while data := link.recv(100):
                link.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    thread.join(5)
    listener.close()


def answer(link: WatchedLink, *sent: bytes) -> bytes:
    host, _, port = link.endpoint.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        got = b""
        for part in sent:
            line.sendall(part)
        while len(got) < sum(map(len, sent)):
            got += line.recv(1 << 16)
        return got


def test_messages_are_told_apart_however_they_are_cut():
    heard: list[int] = []
    messages = [(3, b""), (14, bytes(24)), (6, bytes(70_000)), (10, b"x"), (8, b"")]
    whole = b"".join(HEADER.pack(kind, len(body)) + body for kind, body in messages)
    with echo() as address:
        link = WatchedLink(address, heard.append)
        got = answer(link, *(whole[at : at + 7] for at in range(0, 300, 7)), whole[301:])
        link.close()
    assert got == whole
    assert heard == [kind for kind, _ in messages]


def test_a_client_is_let_go_where_there_is_no_worker():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        link = WatchedLink(f"127.0.0.1:{nobody.getsockname()[1]}", print)
        host, _, port = link.endpoint.partition(":")
        with socket.create_connection((host, int(port)), timeout=5) as line:
            assert line.recv(1) == b""
        link.close()

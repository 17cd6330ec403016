"""The proxy that makes a link slower: it delays, changes nothing, and tells messages apart."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

from benchmarks.serving.slow_link import HEADER, SlowLink


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


def answer(link: SlowLink, *sent: bytes) -> tuple[bytes, float]:
    host, _, port = link.endpoint.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        begun, got = time.perf_counter(), b""
        for each in sent:
            line.sendall(each)
        while len(got) < sum(map(len, sent)):
            got += line.recv(1 << 16)
        return got, time.perf_counter() - begun


def test_all_passes_later_and_what_is_under_way_does_not_wait_for_itself():
    with echo() as address:
        link = SlowLink(address, 0.02)
        sent = [bytes([at]) * 1000 for at in range(20)]
        got, seconds = answer(link, *sent)
        link.close()
    assert got == b"".join(sent)
    assert 0.04 <= seconds < 0.3  # there and back once, not for each
    assert link.trips >= 1


def test_messages_are_told_apart_however_they_are_cut():
    heard: list[int] = []
    messages = [(3, b""), (14, bytes(24)), (6, bytes(70_000)), (10, b"x"), (8, b"")]
    whole = b"".join(HEADER.pack(kind, len(body)) + body for kind, body in messages)
    with echo() as address:
        link = SlowLink(address, watch=heard.append)
        got, _ = answer(link, *(whole[at : at + 7] for at in range(0, 300, 7)), whole[301:])
        link.close()
    assert got == whole
    assert heard == [kind for kind, _ in messages]


def test_a_client_is_let_go_where_there_is_no_worker():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        link = SlowLink(f"127.0.0.1:{nobody.getsockname()[1]}")
        host, _, port = link.endpoint.partition(":")
        with socket.create_connection((host, int(port)), timeout=5) as line:
            assert line.recv(1) == b""
        link.close()

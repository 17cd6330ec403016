"""Raw bytes to and from a server, from a client that breaks off or disregards HTTP."""

from __future__ import annotations

import json
import random
import re
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.apps.server.requests import CHATS

CHAT = "/v1/chat/completions"
BODY = json.dumps(CHATS[2] | {"messages": [{"role": "user", "content": "here"}]}).encode()
GARBAGE = bytes(range(256)) * 4
HEADERS = "host: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
PATIENCE_SECONDS = 0.05  # until the other side is told that no more is coming
CONTINUE = re.compile(rb"HTTP/1\.1 100 [^\r]*\r\n\r\n")


def posted(headers: str = "", body: bytes = BODY, line: str = f"POST {CHAT} HTTP/1.1") -> bytes:
    return f"{line}\r\n{HEADERS}{headers}\r\n".encode("utf-8", "replace") + body


def sized(size: object, body: bytes = BODY) -> bytes:
    return posted(f"content-length: {size}\r\n", body)


def chunked(*chunks: bytes) -> bytes:
    return posted("transfer-encoding: chunked\r\n", b"".join(chunks))


WHOLE = sized(len(BODY))
PIECES = b"".join(b"%x\r\n%b\r\n" % (1, BODY[at : at + 1]) for at in range(len(BODY)))

STREAMS: Sequence[bytes] = (
    *(b"", b"\r\n" * 50, b"\0" * 2000, GARBAGE, b"hello\r\n\r\n", b"POST\r\n\r\n"),
    *(
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + GARBAGE,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ),
    *(WHOLE * 3, WHOLE + GARBAGE, b"\r\n\r\n" + WHOLE, WHOLE.replace(b"\r\n", b"\n")),
    *(
        sized(size)
        for size in (0, 1, -1, "+5", "0x10", "", " ", "abc", "1,2", "٣", "1e3", "9" * 19)
    ),
    *(sized(size) for size in ("9" * 25, "9" * 5000, 1 << 62, len(BODY) + 9)),
    posted(f"content-length: 5\r\ncontent-length: {len(BODY)}\r\n"),
    posted(f"content-length: {len(BODY)}\r\ntransfer-encoding: chunked\r\n"),
    posted(),
    posted("transfer-encoding: gzip, chunked\r\n"),
    posted("transfer-encoding: identity\r\n"),
    chunked(PIECES, b"0\r\n\r\n"),
    chunked(PIECES, b"0\r\ntrailing: yes\r\n\r\n"),
    chunked(PIECES),
    *(
        chunked(size + b"\r\nab\r\n0\r\n\r\n")
        for size in (b"-1", b"zz", b"", b"f" * 40, b"7fffffff")
    ),
    chunked(b"2;" + b"x" * 20_000 + b"\r\nab\r\n0\r\n\r\n"),
    chunked(b"5\r\nab", GARBAGE),
    posted("".join(f"x-{at}: {at}\r\n" for at in range(2000))),
    posted("x: " + "y" * 100_000 + "\r\n"),
    posted("x" * 70_000 + ": y\r\n"),
    posted("host: localhost\r\nhost: evil.example\r\n"),
    posted("bad header\r\n : x\r\nname\0: value\r\n"),
    posted("expect: 100-continue\r\ncontent-length: 4\r\n", b"null"),
    posted("content-encoding: gzip\r\ncontent-length: 4\r\n", b"null"),
    posted("upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: eA==\r\n", b""),
    posted("connection: close, keep-alive, te\r\ncontent-length: 2\r\n", b"{}"),
    *(posted(line=line, body=b"") for line in (f"GET {CHAT} HTTP/1.1", f"BREW {CHAT} HTTP/1.1")),
    *(
        posted(line=f"{way} * HTTP/1.1", body=b"")
        for way in ("OPTIONS", "CONNECT", "TRACE", "x" * 999)
    ),
    *(posted(line=f"POST {CHAT} HTTP/{version}") for version in ("0.9", "1.0", "2.0", "9.9", "x")),
    posted(line="GET http://evil.example/v1/models HTTP/1.1", body=b""),
    posted(line="GET //../..//etc/passwd?" + "a=b&" * 3000 + " HTTP/1.1", body=b""),
    posted(line="GET /v1/models/%ff%00%0d%0a\udcff HTTP/1.1", body=b""),
    posted(line="GET /" + "a" * 100_000 + " HTTP/1.1", body=b""),
)


def half(rng: random.Random, stream: bytes) -> bytes:
    return stream[: rng.randrange(len(stream) + 1)]


def blurred(rng: random.Random, stream: bytes) -> bytes:
    data = bytearray(stream)
    for _ in range(rng.randrange(1, 9)):
        if data:
            data[rng.randrange(min(len(data), 300))] = rng.randrange(256)
    return bytes(data)


CHANGES: Sequence[Callable[[random.Random, bytes], bytes]] = (half, blurred)


def ask(address: str, body: object) -> socket.socket:
    """Send a request for a chat, of which the answer is not waited for."""
    data = json.dumps(body).encode()
    line = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    line.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(data) + data)
    return line


def answer(port: int, stream: bytes, seconds: float) -> bytes:
    """All that comes back until the other side hangs up; a time-out is an error."""
    received = b""
    line = socket.create_connection(("127.0.0.1", port), seconds)
    with line, suppress(ConnectionResetError, BrokenPipeError):  # it need not read everything
        line.sendall(stream)
        if not select.select([line], [], [], PATIENCE_SECONDS)[0]:
            line.shutdown(socket.SHUT_WR)
        while piece := line.recv(1 << 16):
            received += piece
            if CONTINUE.fullmatch(received):  # what is cut off does not come later either
                line.shutdown(socket.SHUT_WR)
    return received

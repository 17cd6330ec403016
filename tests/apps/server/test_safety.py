"""Access to the server, limits of requests, and what a stranger learns."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import tracemalloc

import pytest

from localspec.apps.command_line import run
from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.faults import Refused
from localspec.apps.server.safety import (
    UNPACKED_BYTES,
    Measured,
    Rules,
    allowed_host,
    allowed_origin,
    host_name,
)
from localspec.base.system.addresses import is_loopback
from tests.apps.server.raw import answer
from tests.apps.server.scripted import Server

ASK = {"messages": [{"role": "user", "content": "hello"}]}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def guarded():
    rules = Rules(keys=("first-key", "other-key"), body_bytes=2000)
    made = Server(policy=ServerPolicy(rules, origins=("https://page.example",)))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic first-key"}, 401),
        ({"authorization": "Bearer first-key-and-more"}, 401),
        ({"authorization": "Bearer first-key"}, 200),
        ({"authorization": "bearer other-key"}, 200),
        ({"x-api-key": "other-key"}, 200),
        ({"api-key": "other-key"}, 200),
        ({"x-api-key": "größe".encode()}, 401),
    ],
)
def test_a_server_with_keys_wants_one_of_them(guarded, headers, status):
    answer = guarded.client.post(CHAT, json=ASK, headers=headers)
    assert answer.status_code == status
    if status == 401:
        assert answer.json()["error"]["type"] == "authentication_error"
        assert "key" not in answer.text.replace("API key", "").replace("KEY", "").replace(
            "invalid_api_key", ""
        )


def test_health_needs_no_key_and_everything_else_does(guarded):
    assert guarded.client.get("/health").json()["status"] == "ok"
    for path in ("/metrics", "/v1/models", "/props", "/api/tags", "/nowhere"):
        assert guarded.client.get(path).status_code == 401, path


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ],
)
def test_a_page_that_rebinds_its_name_is_sent_away(guarded, host, status):
    headers = {"host": host, "x-api-key": "first-key"}
    assert guarded.client.get("/v1/models", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("text", "name"),
    [("Box.lan", "box.lan"), ("box:8080", "box"), ("*", "*"), ("::1", "::1"), ("[::1]:80", "::1")],
)
def test_a_host_is_allowed_however_it_is_written(text, name):
    assert allowed_host(text) == name


@pytest.mark.parametrize(
    ("text", "origin"),
    [("https://Page.example/", "https://page.example"), ("*", "*"), ("null", "null")],
)
def test_an_origin_is_allowed_as_browsers_name_it(text, origin):
    assert allowed_origin(text) == origin


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("--allow-host", text) for text in ("http://box", "box/", "a b", "")),
        *(("--allow-origin", text) for text in ("page.example", "https://a/b", "https://*.a", "")),
    ],
)
def test_what_no_browser_sends_is_refused_before_anything_is_looked_for(option, text, capsys):
    assert run(["serve", "nothing-here", option, text]) == 2
    assert f"{option} {text!r} is no" in capsys.readouterr().err


def test_a_request_may_not_be_larger_than_allowed(guarded):
    headers = {"x-api-key": "first-key", "content-type": "application/json"}
    large = json.dumps(ASK | {"user": "x" * 3000}).encode()
    answer = guarded.client.post(CHAT, content=large, headers=headers)
    assert answer.status_code == 413
    assert "2,000 bytes" in answer.json()["error"]["message"]
    pieces = (large[at : at + 100] for at in range(0, len(large), 100))  # without a length
    answer = guarded.client.post(CHAT, content=pieces, headers=headers)
    assert answer.status_code == 413
    assert guarded.client.post(CHAT, json=ASK, headers=headers).status_code == 200


def test_nothing_more_is_awaited_of_a_body_that_has_come_whole():
    left = [{"type": "http.request", "body": b"x" * 20, "more_body": False}]

    async def receive():
        return left.pop()

    with pytest.raises(Refused, match="may have 10 bytes"):
        asyncio.run(Measured(receive, 10).receive())


@pytest.mark.parametrize("length", ["content-length: %d", "transfer-encoding: chunked"])
def test_a_client_that_still_sends_hears_that_its_body_is_too_large(guarded, length):
    data = b"x" * (16 << 20)
    if "%d" in length:
        length = length % len(data)
    else:
        data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
    headers = f"host: localhost\r\nconnection: close\r\nx-api-key: first-key\r\n{length}\r\n\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\n{headers}"
    port = int(guarded.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 20) as line:
        line.sendall(head.encode() + data)
        assert line.recv(4096).startswith(b"HTTP/1.1 413")


def posted_gzip(server, packed):
    headers = {"x-api-key": "first-key", "content-type": "application/json"}
    headers["content-encoding"] = "gzip"
    pieces = (packed[at : at + 7] for at in range(0, len(packed), 7))
    return server.client.post(CHAT, content=pieces, headers=headers)


def test_a_body_may_be_packed_and_unpacks_no_further_than_allowed(server, guarded):
    body = json.dumps(ASK).encode()
    for size in (1 << 20, (1 << 19) - len(body), 3):  # as much as is unpacked at once, and others
        assert posted_gzip(server, gzip.compress(body + b" " * size)).status_code == 200
    assert posted_gzip(guarded, gzip.compress(body)).status_code == 200
    assert posted_gzip(guarded, gzip.compress(body + b" " * 3000)).status_code == 413
    padded = gzip.compress(body) + b"x" * 3000
    assert posted_gzip(guarded, padded).status_code == 413


@pytest.mark.parametrize(
    "size", [0, 1, *(at * UNPACKED_BYTES for at in (1, 2)), UNPACKED_BYTES + 1]
)
def test_a_body_of_any_size_is_unpacked_whole(size):
    body = bytes(size)

    async def receive():
        return {"type": "http.request", "body": gzip.compress(body)}

    measured = Measured(receive, 10 * UNPACKED_BYTES, "gzip")
    message = asyncio.run(asyncio.wait_for(measured.receive(), 20))
    assert message["body"] == body


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(b" " * (50 << 20))

    async def receive():
        return {"type": "http.request", "body": bomb}

    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="may have 2,000 bytes"):
            asyncio.run(Measured(receive, 2000, "gzip").receive())
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"null", "the body is not gzip: "),
        (gzip.compress(b"{}", mtime=0)[:-5], "the body is not whole: its gzip does not end"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused(guarded, packed, message):
    answer = posted_gzip(guarded, packed)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_an_unknown_encoding_of_a_body_is_named(guarded):
    headers = {"x-api-key": "first-key", "content-encoding": "br"}
    answer = guarded.client.post(CHAT, json=ASK, headers=headers)
    assert answer.status_code == 415
    assert "'br' cannot be read" in answer.json()["error"]["message"]


def test_web_pages_may_ask_only_where_that_is_allowed(server, guarded):
    fields = {"origin": "https://page.example", "access-control-request-method": "POST"}
    key = {"x-api-key": "first-key"}
    allowed = guarded.client.post(CHAT, json=ASK, headers=key | fields)
    assert allowed.headers["access-control-allow-origin"] == "https://page.example"
    assert guarded.client.options(CHAT, headers=fields).status_code == 200
    other = guarded.client.post(CHAT, json=ASK, headers=key | {"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    assert (
        "access-control-allow-origin"
        not in server.client.post(CHAT, json=ASK, headers=fields).headers
    )


def test_browsers_hear_that_those_who_may_ask_may_ask_a_private_network(server):
    """Chromium asks this before a page or an app may reach an address of the machine."""
    fields = {
        "access-control-request-method": "POST",
        "access-control-request-private-network": "true",
    }
    answer = server.client.options(CHAT, headers=fields | {"origin": "app://obsidian.md"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-private-network"] == "true"
    assert (
        server.client.options(CHAT, headers=fields | {"origin": "https://evil.example"}).status_code
        == 400
    )


CURL = "application/x-www-form-urlencoded"  # what curl says of a body if nobody tells it otherwise


@pytest.mark.parametrize("kind", [None, CURL, "text/plain", "application/json; charset=utf-8"])
@pytest.mark.parametrize(("path", "body"), [(CHAT, ASK), ("/api/show", {"model": "scripted"})])
def test_a_body_is_json_whatever_curl_calls_it(server, path, body, kind):
    headers = {"content-type": kind} if kind else {}
    sent = json.dumps(body).encode()
    assert server.client.post(path, content=sent, headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["https://other.example", "null"])
def test_a_web_page_cannot_send_json_under_another_name(guarded, origin):
    """Browsers ask before they send JSON, and do not before they send a form."""
    headers = {"origin": origin, "content-type": CURL, "x-api-key": "first-key"}
    sent = json.dumps(ASK).encode()
    assert guarded.client.post(CHAT, content=sent, headers=headers).status_code == 400


def test_a_wrong_part_of_a_body_names_no_class_of_the_program(server):
    answer = server.client.post("/lora-adapters", json=["all"])
    assert answer.json()["error"]["param"] == "0"
    assert "LoraScale" not in answer.text


def test_a_failure_tells_nothing_of_the_program(server, monkeypatch):
    def broken(rows):
        raise ZeroDivisionError("a secret in /home/somebody/file.py")

    monkeypatch.setattr(server.model, "forward", broken)
    answer = server.client.post(CHAT, json=ASK)
    assert answer.status_code == 500
    assert "Traceback" not in answer.text
    assert "file.py" not in answer.text
    monkeypatch.undo()
    assert server.client.post(CHAT, json=ASK).status_code == 200


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/nothing", ["error"]),
        ("/v1/messages/nothing", ["error", "type"]),
        ("/api/no", ["error"]),
    ],
)
def test_what_is_not_there_is_told_in_the_words_of_its_api(server, path, shape):
    answer = server.client.post(path, json={})
    assert answer.status_code == 404
    assert sorted(answer.json()) == shape


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000]
)
def test_a_body_that_is_no_request_is_refused(server, body):
    headers = {"content-type": "application/json"}
    answer = server.client.post(CHAT, content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "0.0.0.0"], "any client that reaches 0.0.0.0 could use this server"),
        (["--host", "::"], "any client that reaches :: could use this server"),
        (["--api-key", "two words\n"], "an API key is of visible ASCII letters"),
        (["--api-key", ""], "an API key is empty"),
        (["--host", "203.0.113.7", "--insecure"], "cannot be had"),
    ],
)
def test_a_server_that_would_be_open_or_cannot_be_is_not_started(capsys, arguments, why):
    assert run(["serve", "smollm2-135m", *arguments]) == 2
    assert why in capsys.readouterr().err


def test_keys_come_from_a_file_too(tmp_path, capsys):
    empty = tmp_path / "keys"
    empty.write_text("\n")
    assert run(["serve", "smollm2-135m", "--api-key-file", os.fspath(empty)]) == 2
    assert "has no keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("localhost.example", False),
    ],
)
def test_local_is_what_only_this_machine_reaches(address, local):
    assert is_loopback(address) is local


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("LocalHost:8080", "localhost"),
        ("[::1]:80", "::1"),
        ("a.example", "a.example"),
    ],
)
def test_a_host_is_known_by_its_name(header, name):
    assert host_name(header) == name


@pytest.mark.parametrize(
    "header",
    [
        *("[::1].evil.example", "[localhost]evil.example", "localhost:80@evil.example"),
        *("[localhost]", "[]", "[::1", "::1", "localhost:80:90", "local host", "a/b", "a:x"),
    ],
)
def test_what_is_neither_a_name_nor_an_address_is_no_host(guarded, header):
    assert host_name(header) is None
    answer = guarded.client.get("/v1/models", headers={"host": header, "x-api-key": "first-key"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/v1/models?x=1", "localhost", 200),
        ("HTTP://LOCALHOST:80/v1/models", "evil.example", 200),
        ("http://evil.example/v1/models", "localhost", 403),
        ("http://localhost", "localhost", 200),
        ("http://localhost/no%2Fwhere", "localhost", 404),
        ("ftp://localhost/v1/models", "localhost", 404),
    ],
)
def test_a_whole_url_is_answered_as_its_host_and_path(server, target, host, status):
    head = f"GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    port = int(server.address.rpartition(":")[2])
    assert answer(port, head.encode(), 10).split()[1] == str(status).encode()


def test_a_body_with_two_lengths_is_refused_and_its_connection_closed(server):
    both = "content-length: 4\r\ntransfer-encoding: chunked\r\n"
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n{both}\r\n"
    port = int(server.address.rpartition(":")[2])
    result = answer(port, head.encode() + b"0\r\n\r\nGET /health HTTP/1.1\r\n\r\n", 10)
    assert result.startswith(b"HTTP/1.1 400")
    assert result.count(b"HTTP/1.1") == 1
    assert b"a content length or a transfer encoding, not both" in result


def test_a_request_without_a_host_comes_from_no_browser_and_is_answered(server):
    port = int(server.address.rpartition(":")[2])
    assert answer(port, b"GET /health HTTP/1.0\r\n\r\n", 10).startswith(b"HTTP/1.1 200")
    assert answer(port, b"GET /health HTTP/1.0\r\nhost:\r\n\r\n", 10).startswith(b"HTTP/1.1 403")

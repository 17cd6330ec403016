"""Pictures at addresses: fetched within bounds, and from public addresses only."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.faults import Refused
from localspec.apps.server.fetching import (
    MAX_REDIRECTS,
    Fetcher,
    is_elsewhere,
    is_public,
    own_addresses,
)
from localspec.apps.server.media_intake import MediaLimits
from tests.apps.server.client_requests import BLOCKS, CHAT, ITEMS
from tests.apps.server.seeing import FILES, seeing
from tests.apps.server.test_clients import said
from tests.apps.server.test_listening import CERT, KEY

MOST = 100_000  # bytes


class Pages(BaseHTTPRequestHandler):
    """Some files, and ways to them."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/to/"):
            self.send_response(302)
            self.send_header("location", self.path.removeprefix("/to"))
            self.end_headers()
        elif path == "/out":
            self.send_response(302)
            self.send_header("location", "http://10.0.0.1/red")
            self.end_headers()
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(bytes(1 << 16))
        elif path == "/slow":
            self.send_response(200)
            self.end_headers()
            self.server.stopped.wait(30)
        elif path[1:] in FILES:
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(FILES[path[1:]])
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve the files; yield the port."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    served.daemon_threads, served.stopped = True, threading.Event()
    if tls:
        served.socket = tls.wrap_socket(served.socket, server_side=True)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served.server_port
    served.stopped.set()
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving() as port:
        yield f"http://127.0.0.1:{port}"


def is_loopback(address) -> bool:
    return address.is_loopback


def fetched(url: str, fetcher: Fetcher | None = None) -> bytes:
    return asyncio.run((fetcher or Fetcher(is_loopback)).fetch(url, MOST))


def refusal(url: str, fetcher: Fetcher | None = None) -> str:
    with pytest.raises(Refused) as refused:
        fetched(url, fetcher)
    assert refused.value.fault.status == 400
    return refused.value.fault.message


def test_a_file_is_fetched_whatever_its_type(site):
    assert fetched(f"{site}/red") == FILES["red"]
    port = site.rpartition(":")[2]
    assert fetched(f"http://localhost:{port}/red?a=b#c") == FILES["red"]


def test_redirects_are_followed_some_times(site):
    assert fetched(f"{site}{'/to' * MAX_REDIRECTS}/red") == FILES["red"]
    assert f"more than {MAX_REDIRECTS} times" in refusal(f"{site}{'/to' * (MAX_REDIRECTS + 1)}/red")


def test_a_redirect_into_another_network_is_not_followed(site):
    assert "http://10.0.0.1 is in a private network" in refusal(f"{site}/out")


def test_what_is_larger_or_not_there_is_refused(site):
    assert f"more than {MOST:,} bytes" in refusal(f"{site}/endless")
    assert "status 404" in refusal(f"{site}/nothing")


def test_a_place_where_nobody_answers_is_refused():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert "cannot be fetched" in refusal(f"http://127.0.0.1:{closed.getsockname()[1]}/a")
    assert "has no address" in refusal("http://a..b/")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/a",
        "http://localhost/a",
        "https://localhost/a",
        "http://2130706433/a",
        "http://0/a",
        "http://[::1]/a",
        "http://[::ffff:127.0.0.1]/a",
        "http://169.254.169.254/latest/meta-data",
        "http://192.168.1.1/a",
        "http://10.1.2.3/a",
        "http://[fe80::1]/a",
        "http://[fd00::1]/a",
    ],
)
def test_a_private_address_is_never_asked(url):
    assert "is in a private network" in refusal(url, Fetcher())


@pytest.mark.parametrize("url", ["http://me:secret@127.0.0.1/a", "http://me@127.0.0.1/a"])
def test_an_address_with_a_password_is_refused_without_showing_it(url):
    error = refusal(url)
    assert "password" in error
    assert "secret" not in error


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("64:ff9b::8.8.8.8", True),
        ("64:ff9b::10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("::ffff:10.0.0.1", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("0.0.0.0", False),
        ("::", False),
        ("ff02::1", False),
        ("64:ff9b:1::7f00:1", False),
        ("::ffff:0:127.0.0.1", False),
        ("::127.0.0.1", False),
        ("::10.0.0.1", False),
        ("fec0::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("2001:db8::1", False),
        ("::ffff:8.8.8.8", True),
    ],
)
def test_addresses_behind_which_a_private_one_hides_are_private(address, public):
    assert is_public(ipaddress.ip_address(address)) is public


def test_an_address_of_this_machine_is_none_of_elsewhere():
    address = ipaddress.ip_address("8.8.8.8")
    assert is_elsewhere(address)
    assert not is_elsewhere(address, own=["8.8.8.8"])
    assert "127.0.0.1" in own_addresses()


@pytest.mark.parametrize("port", [22, 25, 111, 1023])
def test_a_port_of_another_service_is_not_asked(port):
    assert f"port {port} of http://pictures.test" in refusal(f"http://pictures.test:{port}/a")


def test_a_name_that_no_letters_can_spell_is_refused():
    assert "is no address" in refusal("http://xn--a/")


def test_a_name_is_resolved_once(site):
    """A name could mean a public address when it is checked, and a private one right after."""
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    port = site.rpartition(":")[2]
    assert (
        fetched(f"http://pictures.test:{port}/red", Fetcher(is_loopback, resolve)) == FILES["red"]
    )
    assert asked == ["pictures.test"]


def test_a_name_with_a_private_address_among_others_is_refused():
    fetcher = Fetcher(resolve=lambda host, port: ["8.8.8.8", "10.0.0.1"])
    assert "private network" in refusal("http://pictures.test/a", fetcher)


class Secure:
    """A site with a certificate for localhost, which notes by which names it is asked."""

    def __init__(self, port: int, names: list[str]) -> None:
        self.port, self.names = port, names

    def fetch(self, path: str, host: str = "localhost") -> bytes:
        fetcher = Fetcher(is_loopback, lambda host, port: ["127.0.0.1"])
        return fetched(f"https://{host}:{self.port}{path}", fetcher)

    def refusal(self, host: str) -> str:
        with pytest.raises(Refused) as refused:
            self.fetch("/red", host)
        return refused.value.fault.message


@pytest.fixture(scope="module")
def secure() -> Iterator[Secure]:
    tls, names = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), list[str]()
    tls.load_cert_chain(CERT, KEY)
    tls.sni_callback = lambda connection, name, context: names.append(name)
    with serving(tls) as port:
        yield Secure(port, names)


def test_a_file_is_fetched_over_tls_by_the_name_of_its_host(secure, monkeypatch):
    """The connection goes to the address that was checked; the certificate is for the name."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERT))
    secure.names.clear()
    assert secure.fetch("/to/red") == FILES["red"]
    assert secure.names == ["localhost"] * 2


def test_a_certificate_for_another_name_or_of_nobody_known_is_refused(secure, monkeypatch):
    assert "certificate" in secure.refusal("localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERT))
    assert "certificate" in secure.refusal("pictures.test")


@pytest.fixture(scope="module")
def server():
    made = seeing(ServerPolicy(fetch=Fetcher(is_loopback).fetch))
    yield made
    made.close()


def bodies(url: str) -> dict[str, dict[str, object]]:
    chat = [{"type": "text", "text": "See "}, {"type": "image_url", "image_url": {"url": url}}]
    source = {"type": "url", "url": url}
    blocks = [{"type": "text", "text": "See"}, {"type": "image", "source": source}]
    items = [{"type": "input_text", "text": "See "}, {"type": "input_image", "image_url": url}]
    return {
        CHAT: {"messages": [{"role": "user", "content": chat}]},
        BLOCKS: {"max_tokens": 99, "messages": [{"role": "user", "content": blocks}]},
        ITEMS: {"input": [{"role": "user", "content": items}]},
    }


@pytest.mark.parametrize("path", [CHAT, BLOCKS, ITEMS])
def test_a_picture_at_an_address_is_seen(server, site, path):
    answer = server.client.post(path, json=bodies(f"{site}/blue")[path])
    assert answer.status_code == 200, answer.text
    assert "[blue]" in said(path, answer)


def test_a_page_that_is_no_picture_is_refused(server, site):
    answer = server.client.post(CHAT, json=bodies(f"{site}/nothing")[CHAT])
    assert (answer.status_code, "status 404" in answer.text) == (400, True)


def test_a_server_that_fetches_asks_no_private_address(site):
    made = seeing(ServerPolicy(fetch=Fetcher().fetch))
    try:
        answer = made.client.post(CHAT, json=bodies(f"{site}/blue")[CHAT])
        assert (answer.status_code, "private network" in answer.text) == (400, True)
    finally:
        made.close()


def test_a_slow_page_is_given_up(site):
    limits = MediaLimits(fetch_seconds=0.2)
    made = seeing(ServerPolicy(fetch=Fetcher(is_loopback).fetch, media=limits))
    try:
        answer = made.client.post(CHAT, json=bodies(f"{site}/slow")[CHAT])
        assert (answer.status_code, "did not come within 0.2 seconds" in answer.text) == (400, True)
    finally:
        made.close()

"""The sockets of the server: TLS, unix sockets, a prefix for proxies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from localspec.apps.clients.running import endpoint_at
from localspec.apps.command_line import run
from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.listening import bind, check_certificate, listening
from localspec.apps.server.options import ServingOptions
from localspec.apps.server.paths import check_prefix
from localspec.base.errors import UsageError
from localspec.console.speakers.server import AttachedServer
from localspec.console.speakers.speaker import Ended
from localspec.core.requests.settings import Settings
from tests import engines
from tests.apps.server.scripted import Server

CERTIFICATES = Path(__file__).parent / "certificates"
CERT, KEY, OTHER = (CERTIFICATES / name for name in ("cert.pem", "key.pem", "other.pem"))
BODY = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
UNIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no unix sockets")


def test_a_connection_sends_what_it_has_at_once():
    """Without it each answer but a connection's first came 40 ms late."""

    async def accepted():
        delays: asyncio.Queue[int] = asyncio.Queue()

        async def note(_, writer):
            made = writer.get_extra_info("socket")
            await delays.put(made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = bind("127.0.0.1", 0)
        async with await asyncio.start_server(note, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            assert await delays.get()
            writer.close()
            await writer.wait_closed()

    asyncio.run(accepted())


@pytest.fixture
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("s") / "s"  # a short path: 107 bytes are the most


@UNIX
def test_a_unix_socket_is_for_its_owner_alone_and_goes_at_the_end(place):
    with listening(ServingOptions(unix=place)) as listener:
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        with pytest.raises(UsageError, match="listens at"), listening(ServingOptions(unix=place)):
            pass
        listener.close()
    assert not place.exists()


@UNIX
def test_a_socket_that_was_left_behind_is_replaced(place):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    with listening(ServingOptions(unix=place)) as listener:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place))
        listener.close()


@UNIX
def test_a_socket_of_somebody_else_is_not_removed(place):
    with listening(ServingOptions(unix=place)) as listener:
        place.unlink()
        place.touch()
        listener.close()
    assert place.exists()


@UNIX
@pytest.mark.parametrize(
    ("path", "said"), [("file", "is no socket"), ("none/s", "cannot be had"), ("x" * 120, "--unix")]
)
def test_a_path_for_no_socket_is_refused(tmp_path, path, said):
    (tmp_path / "file").write_text("kept")
    options = ServingOptions(unix=tmp_path / path)
    with pytest.raises(UsageError, match=said), listening(options):
        pass
    assert (tmp_path / "file").read_text() == "kept"


def test_a_port_beside_a_unix_socket_is_refused_before_anything_is_looked_for(capsys):
    assert run(["serve", "nothing-here", "--unix", "s", "--port", "80"]) == 2
    assert "a unix socket has no --port: omit it, or --unix" in capsys.readouterr().err


@UNIX
def test_a_server_at_a_unix_socket_answers_and_leaves_nothing(place):
    model = str(engines.tiny("llama"))
    command = [sys.executable, "-m", "localspec", "serve", model, "--threads", "1", "--proposer"]
    process = subprocess.Popen([*command, "none", "--unix", str(place)], stderr=subprocess.PIPE)
    try:
        while not place.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(place)), timeout=30) as client:
            assert client.get("http://any.name/health").json()["status"] == "ok"
        for address in (f"unix:{place}", f"unix://{place}", str(place)):
            attached = AttachedServer(address, "", lambda name: Settings(max_tokens=3))
            speaker = attached.open(*attached.names())
            assert str(place) in speaker.about[0]
            answer = speaker.ask([{"role": "user", "content": "a"}], Settings(max_tokens=3))
            while not isinstance(piece := answer.next(10), Ended):
                assert piece is not None
            assert piece.finish == "length"
        with pytest.raises(UsageError, match="unix socket"):
            endpoint_at(str(place), "")
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    finally:
        process.kill()
        process.stderr.close()
    assert not os.path.lexists(place)


def test_streams_are_answered_by_tls(monkeypatch):
    server = Server(certificate=(CERT, KEY))
    trusted = ssl.create_default_context(cafile=CERT)
    with httpx.Client(base_url=server.address, verify=trusted) as client:
        answer = client.post("/v1/chat/completions", json=BODY)
    server.close()
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        (None, KEY, "give --tls-cert too"),
        (CERT, OTHER, "not that of the certificate"),
        (CERT, None, "--tls-key names"),
        (KEY, KEY, "no certificate"),
        (CERT, CERTIFICATES / "locked.pem", "needs a password"),
        (CERT, CERTIFICATES, "cannot be read"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_refused(certificate, key, said):
    with pytest.raises(UsageError, match=said):
        check_certificate(certificate, key)


def test_a_wrong_certificate_is_told_before_a_model_is_loaded(capsys):
    model = str(engines.tiny("llama"))
    assert run(["serve", model, "--tls-cert", str(CERT), "--tls-key", str(OTHER)]) == 2
    err = capsys.readouterr().err
    assert "not that of the certificate" in err
    assert "loading" not in err
    assert run(["serve", model, "--tls-cert", "/no/such.pem"]) == 2


@pytest.fixture(scope="module")
def prefixed():
    made = Server(policy=ServerPolicy(prefix="/api"))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/models", 200),
        ("/v1/models", 200),
        ("/api/api/tags", 200),
        ("/api/tags", 200),
        ("/api/health", 200),
        ("/apiary/v1/models", 404),
        ("/api/nowhere", 404),
        ("/api", 200),
    ],
)
def test_all_is_answered_under_the_prefix_too(prefixed, path, status):
    assert prefixed.client.get(path).status_code == status


def test_an_error_under_the_prefix_is_in_the_words_of_its_api(prefixed):
    answer = prefixed.client.post("/api/v1/messages", json={})
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"


@pytest.mark.parametrize(
    ("prefix", "taken"), [("", ""), ("/", ""), ("/llm/", "/llm"), ("/a/b", "/a/b")]
)
def test_a_prefix_is_a_path(prefix, taken):
    assert check_prefix(prefix) == taken


@pytest.mark.parametrize("prefix", ["llm", "//", "/a b", "/a?b", "http://x"])
def test_what_is_no_path_is_no_prefix(prefix):
    with pytest.raises(UsageError, match="write one as /llm"):
        check_prefix(prefix)

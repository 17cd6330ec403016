"""Speaking to workers before llama.cpp does: what would end or stop it is an error here."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from localspec.base.errors import DeviceError
from localspec.interfaces.other_machines import WORKERS
from localspec_llamacpp import remote
from localspec_llamacpp.devices import places
from tests.rpc_devices import closed_port

SILENCE = None


@contextmanager
def listening(answer: bytes | None):
    """Serve anything but llama.cpp's protocol as it is spoken here."""
    listener, held = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        with suppress(OSError):
            while True:
                link, _ = listener.accept()
                held.append(link)
                if answer is not SILENCE:
                    link.recv(64)
                    link.sendall(answer)
                    link.close()

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # which ends `accept`
        serving.join(1)  # a link may be accepted, and not held yet
        for each in (listener, *held):
            each.close()


@pytest.fixture(autouse=True)
def _time_to_answer_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE_SECONDS", 60.0)


def refused(endpoint, monkeypatch) -> str:
    monkeypatch.setenv(WORKERS, endpoint)
    with pytest.raises(DeviceError) as told:
        places()
    assert "\n" not in str(told.value)
    return str(told.value)


def hello(major: int) -> bytes:
    return (28).to_bytes(8, "little") + bytes([major, 1, 2, *[0] * 25])


def test_a_worker_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE_SECONDS", 0.3)
    with closed_port() as port:
        error = refused(f"127.0.0.1:{port}", monkeypatch)
    assert "start `localspec worker` there" in error
    assert "--workers" in error


def test_a_worker_of_another_version_is_refused_by_its_version(monkeypatch):
    with listening(hello(99)) as endpoint:
        assert "speaks version 99.1.2" in refused(endpoint, monkeypatch)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 40, b"no"])
def test_what_is_no_worker_is_refused(answer, monkeypatch):
    with listening(answer) as endpoint:
        assert "no RPC server of llama.cpp" in refused(endpoint, monkeypatch)


def test_a_worker_with_another_client_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE_SECONDS", 0.3)
    with listening(SILENCE) as endpoint:
        assert "serves another client" in refused(endpoint, monkeypatch)


def test_a_connection_of_this_process_is_known():
    with listening(SILENCE) as endpoint:
        assert not remote.held(endpoint)
        host, _, port = endpoint.partition(":")
        with socket.create_connection((host, int(port))):
            assert remote.held(endpoint)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="it is Linux's")
def test_a_link_whose_other_end_is_silent_is_given_up_within_seconds(monkeypatch):
    with listening(SILENCE) as endpoint:
        monkeypatch.setenv(WORKERS, endpoint)
        host, _, port = endpoint.partition(":")
        with socket.create_connection((host, int(port))) as link:
            assert not link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            remote.end_silence()
            kept = [link.getsockopt(socket.IPPROTO_TCP, getattr(socket, n)) for n in remote.SILENCE]
            assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    idle, between, count, arrived = kept
    assert idle + between * count < 5
    assert arrived < 5000


def test_workers_are_used_once_each(monkeypatch):
    monkeypatch.setenv(WORKERS, " a:1, b:2,a:1,,")
    assert remote.endpoints() == ["a:1", "b:2"]

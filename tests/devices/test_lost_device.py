"""A device that is lost in mid-request ends the request; the server lives and loads anew."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from localspec.interfaces.other_machines import WORKERS
from tests import engines
from tests.rpc_devices import GB, RpcDevice

ASKED = {"prompt": "the code is the code", "max_tokens": 3000, "ignore_eos": True, "stream": True}


@pytest.fixture
def device():
    made = RpcDevice(4 * GB)
    yield made
    made.kill()


@pytest.fixture
def server(device):
    command = [sys.executable, "-m", "localspec", "serve", str(engines.tiny("llama"))]
    process = subprocess.Popen(
        [*command, "--port", "0", "--depth", "0", "--proposer", "none", "--context", "4096"],
        env=os.environ | {WORKERS: device.endpoint, "GGML_NO_BACKTRACE": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=20)
        process.stderr.close()


def heard(server, last: str) -> Iterator[str]:
    """What the server says, up to a line with these words."""
    for line in server.stderr:
        yield line
        if last in line:
            return
    raise AssertionError("the server ended")


def read_until_lost(base: str, device: RpcDevice) -> None:
    """Read a reply whose device is lost at its tenth line: it must end at once."""
    with httpx.stream("POST", f"{base}/v1/completions", json=ASKED, timeout=5) as reply:
        for at, _ in enumerate(reply.iter_lines()):
            if at == 10:
                device.kill()


def test_the_server_outlives_a_device_and_loads_when_it_is_back(server, device):
    *_, line = heard(server, "answering at")
    base = re.search(r"answering at (\S+)/v1", line)[1]
    port = int(device.endpoint.partition(":")[2])
    named = {each["name"]: each for each in httpx.get(f"{base}/props").json()["devices"]}
    taken = named[device.endpoint]["total_bytes"] - named[device.endpoint]["free_bytes"]
    assert 0 < taken < GB
    gauge = f'localspec_device_free_bytes{{device="{device.endpoint}"}}'
    assert gauge in httpx.get(f"{base}/metrics").text
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):  # not of waiting
        read_until_lost(base, device)
    assert "begins anew" in "".join(heard(server, "answering at"))
    quick = ASKED | {"max_tokens": 4, "stream": False}
    gone = httpx.post(f"{base}/v1/completions", json=quick, timeout=60)
    assert gone.status_code == 503
    assert "does not answer" in gone.json()["error"]["message"]
    back = RpcDevice(4 * GB, port=port)
    try:
        response = httpx.post(f"{base}/v1/completions", json=quick, timeout=60)
        assert response.status_code == 200, response.text
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=20)
        back.kill()


def test_a_lost_device_ends_a_single_answer_with_two_lines(device):
    plain = ("--depth", "0", "--proposer", "none", "--context", "4096", "--ignore-end")
    process = subprocess.Popen(
        [sys.executable, "-m", "localspec", "generate", engines.tiny("llama"), "the code", *plain],
        env=os.environ | {WORKERS: device.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.read(process.stdout.fileno(), 10)
    device.kill()
    _, errors = process.communicate(timeout=60)
    why, advice = errors.decode().splitlines()[-2:]
    assert re.fullmatch(r"llama.cpp: .*ggml-rpc.cpp:\d+: Remote RPC server crashed.*", why)
    assert advice.startswith("localspec: SIGABRT ended the engine; if a graphics card")
    assert process.returncode == 1

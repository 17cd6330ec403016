"""What a device sends back: the logits of the rows that are wanted, and of no others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import pairwise

import pytest

from localspec.interfaces.other_machines import WORKERS
from tests import engines
from tests.rpc_devices import GB, RpcDevice

FORWARDS = """
import sys
from pathlib import Path
import numpy as np
from localspec.interfaces.backend import Options, Row
from localspec_llamacpp import backend
options = Options(context=512, slots=2, batch=64, tentative=31, threads=1)
model = backend.load(Path(sys.argv[1]), options)
tokens = np.arange(32, dtype=np.int32)
for wanted in sys.argv[2:]:
    counts = [int(each) for each in wanted.split("+")]
    logits = model.forward([Row(slot, tokens, count) for slot, count in enumerate(counts)])
    for slot in range(len(counts)):
        model.truncate(slot, 0)
    assert [len(each) for each in logits] == counts
    print(model.vocabulary, flush=True)
    input()
"""


class Counter:
    """Stands between a client and its device, and counts what the device sends."""

    def __init__(self, endpoint: str) -> None:
        self.sent = 0
        self._to = endpoint.partition(":")[2]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            device = socket.create_connection(("127.0.0.1", int(self._to)))
            for ends in ((client, device, 0), (device, client, 1)):
                threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, counts: int) -> None:
        with one, suppress(OSError):
            while data := one.recv(1 << 20):
                self.sent += counts * len(data)
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def counter():
    device = RpcDevice(GB)
    made = Counter(device.endpoint)
    yield made
    made.close()
    device.kill()


def test_a_device_sends_the_rows_that_are_wanted_and_no_others(counter):
    arguments = ["1", "1", "32", "5", "3+1"]  # the first one sends more: the graph is laid out
    process = subprocess.Popen(
        [sys.executable, "-c", FORWARDS, engines.tiny("llama"), *arguments],
        env=os.environ | {WORKERS: counter.endpoint},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    sent = []
    try:
        for _ in arguments:
            row = 4 * int(process.stdout.readline())
            sent.append(counter.sent)
            process.stdin.write("\n")
            process.stdin.flush()
    finally:
        process.communicate(timeout=20)
    rows = [(after - before) // row for before, after in pairwise(sent)]  # beside some words
    assert rows == [1, 32, 5, 3 + 1]

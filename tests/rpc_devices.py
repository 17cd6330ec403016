"""Starts devices of `tests.rpc_device` and lets llama.cpp see them."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from localspec.base.errors import DeviceError
from localspec_llamacpp.remote import require_answer
from tests.rpc_device import WIDTH

GB = 1 << 30


def free_port() -> int:
    """Find a free port below those that systems hand out, so that no other process gets it."""
    while True:
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", 20_000 + secrets.randbelow(12_000)))
            return int(listener.getsockname()[1])


@contextmanager
def closed_port() -> Iterator[int]:
    """Hold a port at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


class RpcDevice:
    """A process with a device each of so many bytes; `width` makes it a bad driver."""

    def __init__(self, *sizes: int, width: int | None = None, port: int | None = None) -> None:
        self.endpoint = f"127.0.0.1:{port or free_port()}"
        command = [sys.executable, "-m", "tests.rpc_device", self.endpoint.partition(":")[2]]
        environment = os.environ | ({} if width is None else {WIDTH: str(width)})
        environment |= {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*command, *map(str, sizes)],
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.wait()

    def wait(self, seconds: float = 20.0) -> None:
        """Wait until it answers."""
        end = time.monotonic() + seconds
        while True:
            try:
                return require_answer(self.endpoint)
            except DeviceError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        """End it and what it forked."""
        with suppress(ProcessLookupError):  # it may have been killed before
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def workers(devices: Sequence[RpcDevice]) -> str:
    return ",".join(device.endpoint for device in devices)

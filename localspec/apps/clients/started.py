"""A server of a client's own on loopback, for as long as the client runs."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from localspec.apps.clients.endpoint import Endpoint
from localspec.apps.clients.running import endpoint_at
from localspec.base.errors import BackendError, LocalSpecError
from localspec.console.speakers.http import Wire

HOST, KEY, SLOTS = "127.0.0.1", "LOCALSPEC_API_KEY", 2  # an agent asks for titles beside its turns
POLL_SECONDS, GRACE_SECONDS = 0.1, 15
MAX_LOG_LINES = 8  # of its log, where it failed


@dataclass(frozen=True, slots=True)
class Start:
    """The model, options and port of a server to start."""

    model: str
    options: tuple[str, ...]
    context: int  # tokens, where the plan allows
    port: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def arguments(self) -> list[str]:
        flags = ["--host", HOST, "--port", str(self.port), "--slots", str(SLOTS)]
        return ["serve", self.model, *flags, *self.options]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def run_server(start: Start, folder: Path) -> Iterator[Endpoint]:
    """Run a server with a key that only this client has, and end it."""
    key, log = secrets.token_urlsafe(24), folder / "server.log"
    # What is configured for `serve` is for other servers, with other addresses and keys.
    none = folder / "no-options.toml"
    none.touch()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("LOCALSPEC_SERVE_")}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "localspec", "--config", str(none), *start.arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=inherited | {KEY: key},
            start_new_session=True,  # so that Ctrl-C is for the client alone
        )
    try:
        yield wait_until_ready(process, start.address, key, log)
    finally:
        end_process(process)


def wait_until_ready(
    process: subprocess.Popen[bytes], address: str, key: str, log: Path
) -> Endpoint:
    """Wait until the server answers, once its model is loaded."""
    wire = Wire(address, key)
    while process.poll() is None:
        with suppress(LocalSpecError):
            wire.ask("/health", seconds=1)
            return endpoint_at(address, key)
        time.sleep(POLL_SECONDS)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-MAX_LOG_LINES:]
    raise BackendError("\n".join(["the server ended before it answered:", *lines]))


def end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

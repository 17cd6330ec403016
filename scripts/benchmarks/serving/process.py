"""Processes that benchmarks start: servers with their addresses, and functions."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import httpx

from localspec.base.errors import LocalSpecError
from localspec.base.system.signals import handled

START_SECONDS = 300.0
STOP_SECONDS = 60.0
ADDRESS_LINE = re.compile(r"answering at (http://\S+)/v1")
LINES = 15  # of a log, to show why a server did not start

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class Unable(LocalSpecError):
    """Raised where a server does not run a model or answers with an error, with its reason."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def client(self, seconds: float = 900.0) -> httpx.AsyncClient:
        """Make a client with as many connections as are wanted, and no proxy."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        return httpx.AsyncClient(
            base_url=self.address, timeout=seconds, limits=limits, trust_env=False
        )


def localspec(path: str | Path, log: Path, *options: str) -> AbstractContextManager[ServerProcess]:
    """Start `localspec serve` at a free port."""
    command = [sys.executable, "-m", "localspec", "serve", str(path), "--port", "0", *options]

    def address() -> str:
        address_line = ADDRESS_LINE.search(log.read_text(encoding="utf-8"))
        return address_line[1] if address_line else ""

    return running("LocalSpec", command, log, address)


@contextmanager
def running(
    name: str, command: Sequence[str], log: Path, address: Callable[[], str]
) -> Iterator[ServerProcess]:
    """Run a server from when it answers until the block ends.

    An interruption within `Popen` would leave a process that nobody knows of.
    """
    with log.open("wb") as out, ExitStack() as ending:
        with interruptions_held_back():
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            ending.callback(stop, process)
        yield ServerProcess(answering(name, process, log, address), process, log)


def answering(
    name: str, process: subprocess.Popen[bytes], log: Path, address: Callable[[], str]
) -> str:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        path = address()
        if path and answers(path):
            return path
        time.sleep(0.1)
    raise SystemExit(f"{name} did not start:\n{last_lines(log)}")


def post(client: httpx.Client, path: str, fields: Mapping[str, object]) -> dict[str, Any]:
    """Ask a server; an `Unable` if it answers with an error or not at all."""
    try:
        reply = client.post(path, json=fields)
    except httpx.TransportError as error:
        raise Unable(f"{path} is not answered: {type(error).__name__}") from error
    if reply.is_error:
        raise Unable(f"{path} answers {reply.status_code}: {reply.text[:500]}")
    body: dict[str, Any] = reply.json()
    return body


def last_lines(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:])


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False


@contextmanager
def interruptions_held_back() -> Iterator[None]:
    """Interrupt at the end of the block, not within."""
    numbers: list[int] = []
    with handled(lambda number, _: numbers.append(number), "SIGINT", "SIGTERM"):
        yield
    if numbers:
        raise KeyboardInterrupt


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process; at once, if it takes too long, or whoever waits for it is interrupted."""
    try:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    finally:
        process.kill()  # which does nothing to one that has ended
        process.wait()


def apart(function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Call a function in a process of its own, which gives all memory back."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()

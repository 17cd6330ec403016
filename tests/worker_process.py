"""Starts `localspec worker`, and servers that use one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import httpx

from localspec.interfaces.other_machines import WORKERS
from tests import engines
from tests.rpc_devices import free_port

QUIET = {"OMP_NUM_THREADS": "1", "GGML_NO_BACKTRACE": "1"}
NOTHING: Mapping[str, str] = {}
START_SECONDS = 120.0


class Told:
    """The lines that a process writes to its stderr, as they come."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] = NOTHING) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "localspec", *command],
            env={**os.environ, **QUIET, **environment},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self.process.stderr:
            self.lines.extend(self.process.stderr)

    def wait_for(self, words: str, after: int = 0) -> re.Match[str]:
        """Wait for a line that these words match, among those after the first so many."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            ended = self.process.poll() is not None and not self._reader.is_alive()
            for line in list(self.lines)[after:]:
                if matches := re.search(words, line):
                    return matches
            if ended:
                break
            time.sleep(0.02)
        raise AssertionError(f"{words!r} was not said:\n{''.join(self.lines)}")

    def ended(self) -> int:
        """Wait for the end; return the exit status."""
        status = self.process.wait(START_SECONDS)
        self._reader.join(START_SECONDS)
        return status

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.ended()


class WorkerProcess:
    """A worker at a port, which can be killed and started again."""

    def __init__(self, *options: str) -> None:
        self.endpoint = f"127.0.0.1:{free_port()}"
        self._options = options
        self.start()

    def start(self) -> None:
        command = ["worker", "--device", "cpu", "--port", self.endpoint.partition(":")[2]]
        self.told = Told([*command, *self._options])
        self.told.wait_for("worker at")

    def kill(self) -> None:
        self.told.kill()


@contextmanager
def worker(*options: str) -> Iterator[WorkerProcess]:
    made = WorkerProcess(*options)
    try:
        yield made
    finally:
        made.kill()


class ServerProcess(Told):
    """`localspec serve` of a tiny model whose layers are on a worker."""

    def __init__(self, endpoint: str, *options: str) -> None:
        model = engines.tiny("llama")
        self.name = model.stem
        command = ["serve", str(model), "--port", "0", "--context", "4096", "--workers", endpoint]
        super().__init__([*command, *options], {WORKERS: ""})
        self._births = 0
        self.client = httpx.Client()

    def ready(self) -> ServerProcess:
        """Wait until it answers, after it began or began anew."""
        match = self.wait_for(r"answering at (\S+)/v1", self._births)
        self._births = next(
            at + 1 for at, line in enumerate(self.lines) if at >= self._births and match[0] in line
        )
        self.client.close()
        self.client = httpx.Client(base_url=match[1], timeout=60, trust_env=False)
        return self

    def kill(self) -> None:
        self.client.close()
        super().kill()

    def complete(self, prompt: str, tokens: int = 8) -> httpx.Response:
        asked = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        return self.client.post("/v1/completions", json=asked)

"""A process that works on what strangers wrote, seen from the program that asks it."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TypeVar

import psutil

from localspec.base.interruption import Interrupted, is_given_up

LOOK_SECONDS = 0.02  # in which a process may take some 100 MB more

Process = subprocess.Popen[bytes]
T = TypeVar("T")


class Unanswered(Exception):
    """Raised where a process ended before it answered, after so many seconds of work."""

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class ConfinedProcess:
    """Starts its process when first asked, and again when one was lost. Any thread may ask.

    The process answers one request after the other, and ends with its input. It limits the time of
    a request itself: see `limits`.
    """

    def __init__(
        self, script: Path, seconds: float, memory_bytes: int, more: Sequence[str] = ()
    ) -> None:
        # By its path: importing the package would take half as long as all that it needs.
        limits = (str(seconds), str(memory_bytes))
        self._command = (sys.executable, "-P", str(script), *limits, *more)
        self._seconds, self._memory_bytes = seconds, memory_bytes
        self._thread = ThreadPoolExecutor(1, script.stem)
        self._process: Process | None = None
        self._open = ExitStack()
        weakref.finalize(self, self._open.close)

    def ask(self, request: Sequence[bytes], read: Callable[[IO[bytes]], T]) -> T:
        """Return what `read` makes of the answer; it raises `EOFError` where that is not whole."""
        answer = self._thread.submit(self._answer, request, read)
        while True:
            try:
                return answer.result(LOOK_SECONDS)
            except TimeoutError:
                self._look()
                if is_given_up():
                    answer.cancel()  # unless it has begun, which its own limits end
                    raise Interrupted from None

    def _answer(self, request: Sequence[bytes], read: Callable[[IO[bytes]], T]) -> T:
        try:
            process = self._ensure_process()
        except OSError as error:
            raise Unanswered(f"no process could be started for it: {error}") from error
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for part in request:
                process.stdin.write(part)
            process.stdin.flush()
            return read(process.stdout)
        except (OSError, EOFError) as error:
            self._open.close()
            most = f"{self._seconds:g} seconds and {self._memory_bytes >> 20} MiB"
            raise Unanswered(f"it did not come to an end within {most}", self._seconds) from error

    def _ensure_process(self) -> Process:
        process = self._process
        if process is None or process.poll() is not None:
            self._open.close()
            pipe = subprocess.PIPE
            process = self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
            self._open.enter_context(suppress(OSError))  # what was not written is lost
            self._open.enter_context(process)
            self._open.callback(process.kill)
        return process

    def _look(self) -> None:
        process = self._process
        with suppress(psutil.Error):
            if process and psutil.Process(process.pid).memory_info().rss > self._memory_bytes:
                process.kill()

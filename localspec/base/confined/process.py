"""A process that works on what strangers wrote, seen from the program that asks it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import psutil

from localspec.base.interruption import Interrupted, is_given_up

CHILD = Path(__file__).with_name("child.py")
LOOK_SECONDS = 0.02  # in which a process may take some 100 MB more
PATIENCE_SECONDS, PATIENCE = 30.0, 10.0  # by the clock, and more for each second of work

Process = subprocess.Popen[bytes]


class Answer(NamedTuple):
    """A reply of JSON, the bytes that came with it, and the seconds of work that they took."""

    reply: Any
    data: bytes
    seconds: float


class Unanswered(Exception):
    """Raised where a process ended before it answered, after so many seconds of work.

    It has no exit code where the machine did not let it start or work, whatever the request.
    """

    def __init__(self, why: str, seconds: float = 0.0, code: int | None = None) -> None:
        super().__init__(why)
        self.seconds, self.code = seconds, code


class ConfinedProcess:
    """Starts its process when first asked, and again when one was lost. Any thread may ask.

    The process answers one request after the other by `respond` of a script, and ends with its
    input. It limits the time of a request itself: see `child`.
    """

    def __init__(
        self, script: Path, seconds: float, memory_bytes: int, errors: int | None = None
    ) -> None:
        self._command = (sys.executable, "-P", str(CHILD), str(script), str(seconds))
        self._seconds, self._memory_bytes, self._errors = seconds, memory_bytes, errors
        self._thread = ThreadPoolExecutor(1, script.stem)
        self._process: Process | None = None
        self._deadline = math.inf
        self._open = ExitStack()
        weakref.finalize(self, self._open.close)

    def ask(self, request: object, data: bytes = b"") -> Answer:
        line = json.dumps([request, len(data)]).encode() + b"\n"
        answer = self._thread.submit(self._answer, line, data)
        while True:
            try:
                return answer.result(LOOK_SECONDS)
            except TimeoutError:
                self._look()
                if is_given_up():
                    answer.cancel()  # unless it has begun, which its own limits end
                    raise Interrupted from None

    def close(self) -> None:
        self._open.close()
        self._thread.shutdown(wait=False)

    def _answer(self, line: bytes, data: bytes) -> Answer:
        patience = PATIENCE_SECONDS + PATIENCE * self._seconds
        self._deadline = time.monotonic() + patience
        try:
            process = self._ensure_process()
        except OSError as error:
            raise Unanswered(f"no process could be started for it: {error}") from error
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.write(data)
            process.stdin.flush()
            return read_answer(process.stdout, self._memory_bytes)
        except (OSError, EOFError, ValueError, TypeError, RecursionError) as error:
            self._open.close()
            if time.monotonic() > self._deadline:
                why = f"it did not come to an end in {patience:g} seconds on a busy machine"
                raise Unanswered(why, self._seconds) from error
            most = f"{self._seconds:g} seconds and {self._memory_bytes >> 20} MiB"
            why = f"it did not come to an end within {most}"
            raise Unanswered(why, self._seconds, process.returncode) from error
        finally:
            self._deadline = math.inf

    def _ensure_process(self) -> Process:
        process = self._process
        if process is None or process.poll() is not None:
            self._open.close()
            pipe = subprocess.PIPE
            process = self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=self._errors
            )
            self._open.enter_context(suppress(OSError))  # what was not written is lost
            self._open.enter_context(process)
            self._open.callback(process.kill)
        return process

    def _look(self) -> None:
        process = self._process
        with suppress(psutil.Error):
            if process and (
                time.monotonic() > self._deadline
                or psutil.Process(process.pid).memory_info().rss > self._memory_bytes
            ):
                process.kill()


def read_answer(stream: IO[bytes], most: int) -> Answer:
    """Read an answer of at most so many bytes.

    Raise an `EOFError`, a `TypeError` or a `ValueError` where there is none.
    """
    line = stream.readline(most)
    if not line.endswith(b"\n"):
        raise EOFError
    reply, length, seconds = json.loads(line)
    if not 0 <= length <= most:
        raise ValueError
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return Answer(reply, data, seconds)

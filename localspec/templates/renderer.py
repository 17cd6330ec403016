"""A process that renders chat templates, seen from the program that asks it.

A template is code from a stranger. Steps could be counted in this process, but one step may be
`10 ** 10 ** 10`, `'a' * 10 ** 10` or one of thirty filters that make as much; a process ends them
all, on every system, for 0.5 ms a render.
"""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from localspec.errors import UsageError
from localspec.interruption import Interrupted, is_given_up

LOOK_SECONDS = 0.02  # in which a process may take some 100 MB more
# By its path: importing the package would take five times as long as all that it needs.
COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("render_process.py")))

Process = subprocess.Popen[bytes]


@dataclass(slots=True)
class Meter:
    """Counts the work of renders, however busy the machine was meanwhile."""

    seconds: float = 0.0


class Renderer:
    """Starts its process when first asked, and again when one was lost. Any thread may ask."""

    def __init__(self, seconds: float = 5.0, memory_bytes: int = 1 << 29) -> None:
        self.seconds = seconds
        self._memory_bytes = memory_bytes
        self._thread = ThreadPoolExecutor(1, "templates")
        self._process: Process | None = None
        self._open = ExitStack()
        weakref.finalize(self, self._open.close)

    def ask(
        self, template: str, variables: Mapping[str, object] | None, meter: Meter | None = None
    ) -> dict[str, str]:
        """Return the "text", or why it is "broken", "refused" or "failed"; nothing if compiled."""
        try:
            request = json.dumps({"template": template, "variables": variables})
        except RecursionError:
            raise UsageError("the messages or tools are nested too deeply") from None
        answer = self._thread.submit(self._answer, request.encode())
        while True:
            try:
                reply, seconds = answer.result(LOOK_SECONDS)
            except TimeoutError:
                self._look()
                if is_given_up():
                    answer.cancel()  # unless it has begun, which its own limits end
                    raise Interrupted from None
                continue
            if meter:
                meter.seconds += seconds
            return reply

    def _answer(self, request: bytes) -> tuple[dict[str, str], float]:
        """Return the reply, and the seconds of work that it took."""
        try:
            process = self._started()
        except OSError as error:
            return {"failed": f"no process could be started for it: {error}"}, 0.0
        assert process.stdin is not None
        assert process.stdout is not None
        reply = b""
        with suppress(OSError):
            process.stdin.write(request + b"\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        if reply.endswith(b"\n"):
            answer, seconds = json.loads(reply)
            return answer, seconds
        self._open.close()
        most = f"{self.seconds:g} seconds and {self._memory_bytes >> 20} MiB"
        return {"failed": f"it did not come to an end within {most}"}, self.seconds

    def _started(self) -> Process:
        process = self._process
        if process is None or process.poll() is not None:
            self._open.close()
            command, pipe = [*COMMAND, str(self.seconds)], subprocess.PIPE
            process = self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
            self._open.enter_context(suppress(OSError))  # what was not written is lost
            self._open.enter_context(process)
            self._open.callback(process.kill)
        return process

    def _look(self) -> None:
        process = self._process
        with suppress(psutil.Error):
            if process and psutil.Process(process.pid).memory_info().rss > self._memory_bytes:
                process.kill()


SHARED = Renderer()

"""The client of a trial in another process: requests, answers, and how the process died."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil

from localspec.base.errors import (
    BackendError,
    DeviceError,
    LocalSpecError,
    ModelFileError,
    OutOfMemory,
    UsageError,
)
from localspec.interfaces.backend import Footprint, Needs, Options
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial_child import GOING
from localspec.running.models.trial_speed import Speeds

LOG = logging.getLogger(__name__)

COMMAND = (sys.executable, "-c", "import localspec.running.models.trial_child as t; t.main()")
ANSWER_SECONDS, BYTES_PER_SECOND = 20.0, 50 << 20  # of work for one answer, by the size of the file
# More where a driver first compiles its kernels: Mesa's in software took 17 for a single token.
# Each width of a batch that runs gives as much again.
KERNEL_SECONDS = 100.0
# More where a picture is encoded: on a processor it may take 5 TFLOP, as Gemma 3's.
PICTURE_SECONDS = 300.0
NOTICE_SECONDS = 5.0  # seconds after which a user hears what is waited for
# Less work than so many seconds between two looks: the process waits for a device that hangs.
STILL_SECONDS = 0.1
MAX_WAITS = 10  # times as long, at most, on a machine that is busy or a disk that is slow
MAX_LAST_WORDS = 300  # letters of an engine's last words
WAITS = "trying %s on the graphics device; its driver may take minutes the first time"
BUILD_FOLDER = re.compile(r"^\S*/")  # where the engine was built


class TrialProcess:
    def __init__(
        self, files: ModelFiles, command: tuple[str, ...] = COMMAND, seconds: float = ANSWER_SECONDS
    ) -> None:
        self._path = files.path
        size = sum(file.stat().st_size for file in files.engine.spec.files(files.path))
        self._seconds = seconds + size / BYTES_PER_SECOND
        self._expired = ""
        self._steps = 0  # of its work that it reported
        self._log = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*command, files.engine.name, str(files.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
            env=os.environ | {"GGML_NO_BACKTRACE": "1"},
            # Ctrl-C is for this process alone: what it ended there would look like a fault.
            process_group=None if sys.platform == "win32" else 0,
        )

    def footprint(self) -> Footprint:
        return footprint(self._ask("footprint"))

    def needs(self, options: Options) -> Needs:
        return Needs.from_json(self._ask("needs", options))

    def run(self, options: Options, *, driven: bool = False) -> None:
        notice = threading.Timer(NOTICE_SECONDS, LOG.warning, [WAITS, self._path.name])
        if driven:
            notice.start()
        try:
            seeing = PICTURE_SECONDS if options.projector else 0.0
            self._ask("run", options, seeing + (KERNEL_SECONDS if driven else 0.0))
        finally:
            notice.cancel()

    def measure(self, options: Options, seconds: float, limit: float) -> Speeds:
        """Time the model for about so many seconds, `limit` at most with loading."""
        timer = threading.Timer(limit, self._give_up, [limit])
        timer.start()
        try:
            answer = self._ask("measure", options, math.inf, seconds=seconds)
        finally:
            timer.cancel()
        return Speeds(**answer | {"text": tuple(answer["text"])})

    def _give_up(self, limit: float) -> None:
        self._expired = f"in {limit:.0f} seconds"
        self._process.kill()

    def _ask(
        self, question: str, options: Options | None = None, more: float = 0.0, **about: float
    ) -> Any:
        fields = {"ask": question, "options": options and asdict(options), **about}
        request = json.dumps(fields, default=os.fspath)
        answered = threading.Event()
        most = self._seconds + more
        threading.Thread(target=self._watch, args=[answered, most], daemon=True).start()
        try:
            reply = self._exchange(request, options)
        except (KeyboardInterrupt, SystemExit):  # nobody waits for the answer any more
            self._process.kill()
            raise
        finally:
            answered.set()
        if "error" in reply:
            raise error_of(reply["error"], reply["message"])
        return reply["answer"]

    def _exchange(self, request: str, options: Options | None) -> dict[str, Any]:
        assert self._process.stdin
        try:
            self._process.stdin.write(request + "\n")
            self._process.stdin.flush()
            while (reply := self._reply()) == GOING:
                self._steps += 1
        except OSError:  # it died before it could be asked
            reply = None
        if reply is None:
            names = (path.name for path in (self._path, *beside(options)))
            files = " with ".join(dict.fromkeys(names))  # a folder may be its own projector
            raise ModelFileError(f"{files} cannot be used: {self._death()}")
        return reply

    def _reply(self) -> dict[str, Any] | None:
        assert self._process.stdout
        reply: dict[str, Any] | None = json.loads(self._process.stdout.readline() or "null")
        return reply

    def _watch(self, answered: threading.Event, most: float) -> None:
        """End the process after too much work without a step; waiting does not count."""
        with suppress(psutil.Error):
            process = psutil.Process(self._process.pid)
            worked, steps, left = busy(process), self._steps, MAX_WAITS * most
            done, still = (worked, bytes_read(process)), False
            while left > 0:
                left -= self._seconds
                if answered.wait(self._seconds):
                    return
                before, done = done, (busy(process), bytes_read(process))
                if steps != self._steps:
                    worked, steps, left = done[0], self._steps, MAX_WAITS * most
                still = done[0] - before[0] < STILL_SECONDS and done[1] == before[1]
                if still or done[0] - worked >= most:
                    break
            short, long = f"in {self._seconds:.0f} seconds", f"in {most:.0f} seconds"
            self._expired = f"{short}, doing nothing" if still else f"{long} of work"
            process.kill()

    def _death(self) -> str:
        code = self._process.wait()
        if self._expired:
            return f"its engine did not answer {self._expired}"
        self._log.seek(0)
        words = last_words(self._log.read())
        if code < 0:
            return f"it ends its engine ({signal.Signals(-code).name}): {words}"
        return words

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def beside(options: Options | None) -> list[Path]:
    """List the files that are loaded beside a model."""
    if options is None:
        return []
    projector = [options.projector] if options.projector else []
    return [*projector, *(adapter.path for adapter in options.adapters)]


def busy(process: psutil.Process) -> float:
    """Measure the seconds of work, of all threads."""
    times = process.cpu_times()
    return float(times.user + times.system)


def bytes_read(process: psutil.Process) -> int:
    """Count the bytes read from disk, if the system reports them."""
    try:
        return int(process.io_counters().read_bytes)
    except (AttributeError, psutil.AccessDenied):  # macOS does not: it may be reading
        return time.monotonic_ns()


def footprint(data: dict[str, Any]) -> Footprint:
    """Read a footprint from JSON."""
    return Footprint(**data | {"path": Path(data["path"])})


def error_of(name: str, message: str) -> LocalSpecError:
    kinds = {kind.__name__: kind for kind in (UsageError, ModelFileError, DeviceError, OutOfMemory)}
    return kinds.get(name, BackendError)(message)


def last_words(log: str) -> str:
    """Find an engine's last message: the assertion that failed, else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "ASSERT" in line or "what():" in line] or lines
    return BUILD_FOLDER.sub("", telling[-1])[:MAX_LAST_WORDS] if telling else "no reason was given"

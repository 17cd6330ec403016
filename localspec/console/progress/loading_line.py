"""The phase of loading: a changing line in a terminal, a line per phase elsewhere.

Ctrl-C ends what is under it at once.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TextIO

from localspec.base.system.signals import left_at_once
from localspec.running.runtime.phases import Phase

LATE_SECONDS = 2.0  # seconds after which a phase is reported where no line can change
ONCE = "(the first time only)"
CLEAR = "\r\033[K"


class LoadingLine:
    """Hears the phases of loading, used as a context."""

    def __init__(
        self,
        name: str,
        out: TextIO | None = None,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        *,
        changes: bool = True,
    ) -> None:
        self._name, self._out, self._timer = name, out or sys.stderr, timer
        self._changes = changes and self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = ""
        self._late: threading.Timer | None = None
        self._closing = ExitStack()

    def __enter__(self) -> LoadingLine:
        self._closing.enter_context(left_at_once(self._clear))
        if self._changes:
            self._show(f"loading {self._name}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._late:
            self._late.cancel()
        self._closing.close()
        self._clear()

    def __call__(self, phase: Phase) -> None:
        if self._changes:
            self._show(words(phase))
        elif phase.share is None:
            self._tell_if_late(f"localspec: {words(phase)}\n")

    def _show(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]  # what wraps cannot be cleared
        if text != self._shown:
            self._shown = text
            self._write(f"{CLEAR}\033[2m{text}\033[0m")

    def _tell_if_late(self, line: str) -> None:
        if line == self._shown:  # two measurements follow each other
            return
        self._shown = line
        if self._late:
            self._late.cancel()
        self._late = self._timer(LATE_SECONDS, lambda: self._write(line))
        self._late.start()

    def _clear(self) -> None:
        if self._changes:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def words(phase: Phase) -> str:
    """Describe a phase in a line."""
    match phase.name:
        case "planning":
            return f"planning the memory for {phase.file}"
        case "trying":
            return f"trying {phase.file} in a process of its own {ONCE}"
        case "reading":
            share = "" if phase.share is None else f", {phase.share:.0%}"
            return f"reading {phase.file}{share}"
        case "measuring":
            return f"measuring {phase.file}: the cost of drafts here {ONCE}"

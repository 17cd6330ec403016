"""Signals and keys that reach a chat while nothing reads them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

if sys.platform != "win32":
    import termios

ENDINGS = ("SIGTERM", "SIGHUP")  # the latter when a terminal is closed, and not on Windows


@contextmanager
def leaving() -> Iterator[None]:
    """Leave in order when the process is ended, so that terminal and conversation are kept."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    known = [each for each in signal.Signals if each.name in ENDINGS]
    before = [signal.signal(each, leave) for each in known]
    try:
        yield
    finally:
        for each, handler in zip(known, before, strict=True):
            signal.signal(each, handler)


@contextmanager
def unechoed() -> Iterator[None]:
    """Keep typed keys off the terminal until something reads them."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)

"""What the system and the keyboard do to a chat besides typing."""

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
    """Leave in order when the system ends us, so that the terminal and what was said are kept."""

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
    """Keep what is typed meanwhile off the terminal; it is there when somebody reads."""
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

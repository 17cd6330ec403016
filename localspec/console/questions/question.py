"""Drops what was typed before a question: no line of an earlier paste may answer it."""

from __future__ import annotations

import sys
from typing import TextIO

if sys.platform == "win32":
    import msvcrt
else:
    import termios


def drop_typed_input(keyboard: TextIO | None = None) -> None:
    """Discard the terminal's unread input."""
    keyboard = keyboard or sys.stdin
    if not keyboard.isatty():
        return
    if sys.platform == "win32":
        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        termios.tcflush(keyboard, termios.TCIFLUSH)

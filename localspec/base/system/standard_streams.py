"""Standard input, output and errors, which whoever starts the command may have closed."""

from __future__ import annotations

import io
import os
import sys


def make_usable() -> None:
    """Open what is closed on the null device, and write all text in any encoding.

    Otherwise the next file that is opened would get the number of a closed stream, and what an
    engine prints would go into it. A character that the encoding lacks is written as `\\u2603`.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Drop what is still to be written, or Python complains at exit that it cannot be."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

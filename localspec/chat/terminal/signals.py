"""Keys that reach a chat while nothing reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

if sys.platform != "win32":
    import termios


@contextmanager
def unechoed() -> Iterator[None]:
    """Keep typed keys off the terminal until something reads them."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] = quiet[3] & ~termios.ECHO | termios.NOFLSH  # Ctrl-C would drop what is being drawn
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)

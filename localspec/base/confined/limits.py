"""The limit of time inside a confined process, which loads this file by its path."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End this process after so many seconds of work; on a busy machine they last longer.

    A timer needs no interpreter: not even one long power, or a dead program, stops it.
    """
    if sys.platform == "win32":  # has a clock of the wall only
        with open(os.devnull, "w") as nowhere:
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
            yield
            faulthandler.cancel_dump_traceback_later()
    else:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

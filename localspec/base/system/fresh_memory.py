"""Memory that the system gives and gets back whole, for data of many megabytes."""

from __future__ import annotations

import mmap
import sys

import numpy as np
from numpy.typing import NDArray


def fresh(size: int) -> mmap.mmap:
    """Return so much memory, which the system gets back whole.

    In pages of the usual size: 9 MB then take 5 ms to write. Pages of 2 MiB, which numpy asks for,
    take 1.5 ms on a machine of its own, but 19 ms on a virtual one whose host takes free ones back.
    """
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def allocated(size: int) -> NDArray[np.uint8] | None:
    """Return an array in fresh memory; None if there is none."""
    try:
        return np.frombuffer(fresh(size), np.uint8, size)
    except OSError:
        return None

"""Notes in a file which functions of the engine were called, and stays in one, for tests."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def noted(call: str) -> None:
    if place := os.environ.get("LOCALSPEC_TOY_CALLS"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {call}\n")


def stay(call: str) -> None:
    """Stay in a call of C, which no signal ends, at the call that a test names, as "load 2"."""
    stuck, place = os.environ.get("LOCALSPEC_TOY_STUCK"), os.environ.get("LOCALSPEC_TOY_CALLS")
    if not (stuck and place):
        return
    loads = Path(place).read_text(encoding="utf-8").count(" load\n")
    if stuck == f"{call} {loads}":
        noted("stuck")
        library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)

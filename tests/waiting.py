"""Waits for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0  # until what has to happen is taken for missing, on a busy machine, too


def until(claim: Callable[[], object]) -> None:
    """Wait until a claim is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not claim():
        assert time.monotonic() < end, f"it did not come true in {PATIENCE_SECONDS:g} seconds"
        time.sleep(0.005)

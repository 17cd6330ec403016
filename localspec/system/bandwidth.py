"""The speed of the host's memory, measured."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil

BYTES, TIMES = 32 << 20, 3  # copied by each thread; more than caches hold


def copied_bytes_a_second() -> float:
    """Copy with all cores; a copy reads and writes, and the fastest of a few counts."""
    threads = psutil.cpu_count(logical=False) or 1
    sources = [np.ones(BYTES, np.uint8) for _ in range(threads)]
    targets = [np.zeros(BYTES, np.uint8) for _ in range(threads)]

    def copy(at: int) -> None:
        np.copyto(targets[at], sources[at])

    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(TIMES):
            begun = time.perf_counter()
            list(pool.map(copy, range(threads)))
            best = min(best, time.perf_counter() - begun)
    return 2 * BYTES * threads / best

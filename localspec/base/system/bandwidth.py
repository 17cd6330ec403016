"""The speed of the host's memory, measured."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psutil

from localspec.base.system import folders, kept_json, processors

COPIED_BYTES, COPIES = 32 << 20, 10  # copied by each thread; more than caches hold
READ_BYTES, READINGS = 256 << 20, 9  # by all threads
KEPT_SECONDS = 24 * 3600.0


def read_bytes_a_second(threads: int | None = None) -> float:
    """Return the most that so many threads read of a large array, or one on each core."""
    import numpy as np  # which `localspec list` does without

    threads = threads or psutil.cpu_count(logical=False) or 1
    pieces = np.array_split(np.ones(READ_BYTES // 4, np.float32), threads)
    fastest = math.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(READINGS):
            start = time.perf_counter()
            list(pool.map(np.max, pieces))  # which computes less than a sum
            fastest = min(fastest, time.perf_counter() - start)
    return READ_BYTES / fastest


def copied_bytes_a_second(copies: int = COPIES, most_threads: int = 1 << 10) -> float:
    """Copy with all cores; a copy reads and writes, and the fastest of a few counts.

    Each thread takes 64 MB meanwhile.
    """
    threads = min(psutil.cpu_count(logical=False) or 1, most_threads)
    # Of texts that are written, so that there is memory behind all of their pages.
    sources = [
        ctypes.create_string_buffer(b"x" * COPIED_BYTES, COPIED_BYTES) for _ in range(threads)
    ]
    targets = [ctypes.create_string_buffer(COPIED_BYTES) for _ in range(threads)]

    def copy(at: int) -> None:
        ctypes.memmove(targets[at], sources[at], COPIED_BYTES)  # while other threads run

    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(copies):
            start = time.perf_counter()
            list(pool.map(copy, range(threads)))
            best = min(best, time.perf_counter() - start)
    return 2 * COPIED_BYTES * threads / best


class MemorySpeed(NamedTuple):
    """Bytes that are copied in a second; `busy`: beside other programs, which slow that down."""

    bytes_a_second: float
    busy: bool = False


def kept_speed(
    measure: Callable[[], float] = copied_bytes_a_second,
    is_busy: Callable[[], bool] = processors.is_busy,
) -> MemorySpeed:
    """Return the speed that was measured within a day; else, or if it was busy and is not, measure.

    The fastest that was ever measured counts: other programs only slow it down.
    """
    path = folders.cache() / "bandwidth.json"
    kept, fresh = kept_json.load(path, _with_freshness) or (None, False)
    if kept and fresh and not kept.busy:
        return kept
    busy = is_busy()
    if kept and fresh and busy:
        return kept
    fastest = measure()
    if kept and kept.bytes_a_second > fastest:
        fastest, busy = kept.bytes_a_second, kept.busy and busy
    kept_json.keep(path, {"measured": time.time(), "bytes_a_second": fastest, "busy": busy})
    return MemorySpeed(fastest, busy)


def _with_freshness(record: dict[str, Any]) -> tuple[MemorySpeed, bool] | None:
    """Read the speed that is kept, and whether it was measured within a day."""
    speed = MemorySpeed(float(record["bytes_a_second"]), record.get("busy") is True)
    fresh = 0 <= time.time() - record["measured"] < KEPT_SECONDS
    return (speed, fresh) if 0 < speed.bytes_a_second < math.inf else None

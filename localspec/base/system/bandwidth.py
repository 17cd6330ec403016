"""The speed of the host's memory, measured."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil

from localspec.base.system import folders, kept_json

COPIED_BYTES, COPIES = 32 << 20, 10  # copied by each thread; more than caches hold
KEPT_SECONDS = 24 * 3600.0


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


def kept_bytes_a_second() -> float:
    """Return the rate if it was measured within a day; else measure it.

    The fastest that was ever measured counts: other programs only slow it down.
    """
    path = folders.cache() / "bandwidth.json"
    fastest = 0.0
    with suppress(OSError, ValueError, TypeError, KeyError):
        record = kept_json.read(path)
        fastest = max(float(record["bytes_a_second"]), 0.0)
        if 0 <= time.time() - record["measured"] < KEPT_SECONDS and fastest:
            return fastest
    fastest = max(copied_bytes_a_second(), fastest)
    kept_json.keep(path, {"measured": time.time(), "bytes_a_second": fastest})
    return fastest

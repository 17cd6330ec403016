"""Huge pages for weights in memory, on Linux.

A token reads all weights. In pages of 4 KiB, as a mapped file has them, the processor looks up half
a million of them for each 2 GB; in huge ones, a thousand. llama.cpp does not ask for them, so this
asks for what it has allocated, before it reads the weights.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
MAPS = Path("/proc/self/maps")
ADVICE = 14  # MADV_HUGEPAGE
MIN_BYTES = 1 << 24  # bytes, more than a thread's stack has

Span = tuple[int, int]  # addresses


def available() -> bool:
    with suppress(OSError):
        return sys.platform == "linux" and "[never]" not in ENABLED.read_text(encoding="ascii")
    return False


def allocated() -> list[Span]:
    """List the memory of this process that belongs to no file."""
    with suppress(OSError):
        lines = map(str.split, MAPS.read_text(encoding="utf-8").splitlines())
        return [_span(words[0]) for words in lines if len(words) == 5 and words[1] == "rw-p"]
    return []


def _span(addresses: str) -> Span:
    start, _, end = addresses.partition("-")
    return int(start, 16), int(end, 16)


def ask_for(before: Sequence[Span]) -> None:
    """Ask for huge pages for what was allocated since; the kernel may have none."""
    for start, end in added(before, allocated()):
        if end - start >= MIN_BYTES:
            ctypes.CDLL(None).madvise(*map(ctypes.c_size_t, (start, end - start)), ADVICE)


def added(before: Sequence[Span], now: Sequence[Span]) -> Iterator[Span]:
    """Yield what is in these spans and was not before; the kernel joins neighbours."""
    for start, end in now:
        for first, last in sorted(before):
            if start < last and first < end:
                if start < first:
                    yield start, first
                start = last
        if start < end:
            yield start, end

"""The memory of this machine that a process may still take, by the tightest limit."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from localspec.base.device import Device

MAX_STALLED = 0.1  # share of the time spent waiting for memory that is too much
MMAP_THRESHOLD, LARGE_BLOCK = -3, 1 << 20  # an option of glibc's, and bytes
FULL = re.compile(r"full avg10=([\d.]+)")


def memory(root: Path = Path("/")) -> Device:
    """Return total and free bytes, by the tightest limit."""
    system = psutil.virtual_memory()
    total, free = system.total, system.available
    for limit, used in (*groups(root), *address_space()):
        total, free = min(total, limit), min(free, max(limit - used, 0))
    return Device("host memory", "cpu", total, free)


def return_large_blocks() -> None:
    """Return each large block to the system when it is freed, from now on.

    glibc takes blocks from the system one by one only until one of their size was freed; then it
    keeps them, apart for each thread.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if set_option:
            set_option(MMAP_THRESHOLD, LARGE_BLOCK)


def groups(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group that this process is in, cgroup v1 and v2.

    Inactive file pages are not counted as used: the kernel frees them when room is needed.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if not kinds:
            yield from _upwards(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "")
        elif "memory" in kinds.split(","):
            place = root / "sys/fs/cgroup/memory"
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
            yield from _upwards(place, path, limit, used, "total_")


def _upwards(
    place: Path, path: str, limit: str, used: str, prefix: str
) -> Iterator[tuple[int, int]]:
    """Yield a group and its parents; inside a container only some of them can be seen."""
    group = place / path.strip("/")
    for folder in (group, *group.parents):
        with suppress(ValueError):
            most, taken = int(_text(folder / limit)), int(_text(folder / used))
            statistics = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
            yield most, taken - int(statistics.get(f"{prefix}inactive_file", 0))
        if folder == place:
            return


def address_space() -> Iterator[tuple[int, int]]:
    """Yield the limit by `ulimit -v` or `prlimit --as`, and its use."""
    if sys.platform != "win32":
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield limit, psutil.Process().memory_info().vms


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def stalls(root: Path = Path("/")) -> float:
    """Return the share of the last ten seconds in which this whole group waited for memory."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if not kinds:
            own = root / "sys/fs/cgroup" / path.strip("/") / "memory.pressure"
            if match := FULL.search(_text(own) or _text(root / "proc/pressure/memory")):
                return float(match[1]) / 100
    return 0.0

"""The processor cores that are worth a thread each."""

from __future__ import annotations

import os
import sys
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import psutil

from localspec_llamacpp.bindings import library

MUCH_SLOWER = 0.7  # of the speed of the fastest core: not worth a thread beside it


def physical_cores() -> int:
    """Count cores worth a thread each: hyper-threads and efficiency cores slow the others down."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if sys.platform == "linux":
        cores = min(cores, granted_cores(Path("/sys/fs/cgroup")))
        cores = min(cores, fast_cores(Path("/sys/devices"), usable_processors()))
    return max(1, min(cores, performance_cores() or cores))


def usable_processors() -> set[int]:
    """List the processors that this process may use, as under `taskset` and `numactl`."""
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return set(range(psutil.cpu_count() or 1))


def fast_cores(devices: Path, usable: Set[int]) -> int:
    """Count the cores of a Linux machine behind these processors, but for much slower ones."""
    speeds: dict[str, int] = {}
    fast = {number for text in _read(devices / "cpu_core/cpus") for number in _numbers(text)}
    for number in usable:
        folder = devices / f"system/cpu/cpu{number}"
        [core] = _read(folder / "topology/core_cpus_list") or [folder.name]
        capacity = [str(int(number in fast))] if fast else _read(folder / "cpu_capacity")
        speeds[core] = int(*capacity or ["1"])
    least = MUCH_SLOWER * max(speeds.values(), default=0)
    return sum(speed >= least for speed in speeds.values())


def _read(file: Path) -> list[str]:
    """Read a file of the system's; nothing if there is none."""
    with suppress(OSError):
        return [file.read_text(encoding="ascii").strip()]
    return []


def _numbers(ranges: str) -> list[int]:
    """Read numbers as the system writes them: 0-3,8."""
    pairs = (part.partition("-") for part in ranges.split(",") if part)
    return [at for first, _, last in pairs for at in range(int(first), int(last or first) + 1)]


def granted_cores(cgroup: Path) -> int:
    """Compute the processor time a container may use, in whole cores; large if it may use all."""
    for quota, period in (("cpu.max", ""), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            words = (cgroup / quota).read_text().split()
            words += (cgroup / period).read_text().split() if period else []
            if words[0] not in ("max", "-1"):
                return max(1, int(words[0]) // int(words[1]))
    return 1 << 16


def performance_cores() -> int | None:
    """Count the fast cores of an Apple chip; None elsewhere."""
    if sys.platform != "darwin":
        return None
    return library.system_number(b"hw.perflevel0.physicalcpu")

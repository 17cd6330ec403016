"""The processor cores that are worth a thread each."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from localspec_llamacpp.bindings import library


def physical_cores() -> int:
    """Count cores worth a thread each: hyper-threads and efficiency cores slow the others down."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if sys.platform == "linux":
        cores = min(cores, len(os.sched_getaffinity(0)), granted_cores(Path("/sys/fs/cgroup")))
    return max(1, min(cores, performance_cores() or cores))


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

"""The cost of a build of llama.cpp: compilers at once, and minutes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from math import ceil

from localspec_build.machine import free_memory

# Minutes of one slow core, with code for one architecture of cards. A fast one (an AMD EPYC with
# AVX-512) takes a third: 176 seconds were measured for the processor.
CORE_MINUTES = {"cpu": 10, "metal": 12, "vulkan": 24, "cuda": 70, "hip": 150}
FASTER = 3
HUNGRY = {"cuda": 2**30, "hip": 2**30}  # bytes that a compiler takes: 0.7 GB of nvcc were seen
LEVEL = "CMAKE_BUILD_PARALLEL_LEVEL"


def jobs(kind: str, free: int, cores: int) -> int:
    """Return how many compilers the memory holds at once; 0 where it holds one for each core."""
    number = free // HUNGRY[kind] if kind in HUNGRY else cores
    return max(1, number) if number < cores else 0


def environment(kind: str, user_environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what a build for a kind wants of its environment, and the user did not set."""
    settings: dict[str, str] = {}
    if number := jobs(kind, free_memory(), cores()):
        settings[LEVEL] = str(number)
    if cxx := shutil.which(user_environment.get("CXX", "")):
        settings["CUDAHOSTCXX"] = cxx  # nvcc takes the system's else
    return {name: value for name, value in settings.items() if name not in user_environment}


def duration_text(kind: str, level: str, count: int) -> str:
    """Estimate how long a build takes on `count` cores, of which `level` may bound the use."""
    slow = CORE_MINUTES.get(kind, CORE_MINUTES["cpu"])
    fast = round(slow / FASTER)
    used = min(int(level), count) if level.isdecimal() and int(level) else count
    if used == 1:
        return f"{fast} to {slow} minutes on one core"
    return (
        f"{fast} to {slow} minutes of one core, "
        f"so {ceil(fast / used)} to {ceil(slow / used)} on the {used} here if they are free"
    )


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

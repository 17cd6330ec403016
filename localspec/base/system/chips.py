"""Apple's chips: what is published of the memory that their GPUs read.

Gigabytes a second by Apple's technical specifications (support.apple.com/specs), M1 of 2020 to M5
of 2026. A processor's cores copy about half of what the GPU of a Max reads, so this is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LIMIT = "iogpu.wired_limit_mb"  # the setting of how much memory a GPU may take
CHIP = re.compile(r"Apple (M(?P<generation>\d+)(?: (?:Pro|Max|Ultra))?)")
PUBLISHED: Mapping[str, float] = {
    "M1": 68.25,
    "M1 Pro": 200,
    "M1 Max": 400,
    "M1 Ultra": 800,
    "M2": 100,
    "M2 Pro": 200,
    "M2 Max": 400,
    "M2 Ultra": 800,
    "M3": 100,
    "M3 Pro": 150,
    "M3 Max": 400,
    "M3 Ultra": 819,
    "M4": 120,
    "M4 Pro": 273,
    "M4 Max": 546,
    "M5": 153,
    "M5 Pro": 307,
    "M5 Max": 614,
}
# Chips with fewer cores have the same name, and memories of these sizes in GiB.
FEWER_CORES: Mapping[str, tuple[float, tuple[int, ...]]] = {
    "M3 Max": (300, (36, 96)),
    "M4 Max": (410, (36,)),
    "M5 Max": (460, (36,)),
}
GIGABYTE = 1e9


def read_bytes_a_second(device: str, memory_bytes: int) -> float | None:
    """Look up what the GPU of a chip reads, by the name of the device; None: it is not listed."""
    chip = CHIP.fullmatch(device)
    if chip is None or chip[1] not in PUBLISHED:
        return None
    fewer, sizes = FEWER_CORES.get(chip[1], (0, ()))
    rate = fewer if round(memory_bytes / 2**30) in sizes else PUBLISHED[chip[1]]
    return rate * GIGABYTE


def generation(device: str) -> int:
    """Return the generation of a chip by the name of the device; 0: it is none of Apple's."""
    chip = CHIP.fullmatch(device)
    return int(chip["generation"]) if chip else 0

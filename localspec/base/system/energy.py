"""The energy that processors and graphics cards take, where the machine tells it.

All that runs on them is counted. Linux lets only root read the counters of processors (RAPL), since
fine ones betray what others compute; powermetrics of macOS wants root, too, and is not asked.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

RAPL = Path("/sys/class/powercap")
PARTS = ("package", "dram")  # zones that do not contain each other
NVML = "libnvidia-ml.so.1"
COARSE_SECONDS = 1.0  # between two readings that anybody may see


class Counter(NamedTuple):
    """A counter of joules, which begins anew after `most`; 0: never."""

    name: str
    read: Callable[[], float]
    most: float = 0.0


class EnergyMeter:
    """Adds up the joules of all counters since it was made."""

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters = tuple(counters)
        self._last = [counter.read() for counter in self._counters]
        self._total = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(counter.name for counter in self._counters)

    def begin_anew(self) -> None:
        """Count from now on."""
        self.joules()
        self._total = 0.0

    def joules(self) -> float | None:
        """Return the energy until now; None where nothing counts it, or no more."""
        if not self._counters:
            return None
        try:
            now = [counter.read() for counter in self._counters]
        except (OSError, ValueError):  # a card or a right that is gone
            self._counters = ()
            return None
        for counter, before, after in zip(self._counters, self._last, now, strict=True):
            self._total += after - before + (counter.most if after < before else 0.0)
        self._last = now
        return self._total


class CoarseMeter:
    """The same in whole joules, read once a second at most: finer ones betray other programs."""

    def __init__(self, meter: EnergyMeter, clock: Callable[[], float] = time.monotonic) -> None:
        self._meter, self._clock = meter, clock
        self._at, self._joules = clock(), meter.joules()

    def reading(self) -> dict[str, object] | None:
        """Return the counters, the joules until the last reading, and its time."""
        now = self._clock()
        if now - self._at >= COARSE_SECONDS:
            self._at, self._joules = now, self._meter.joules()
        if self._joules is None:
            return None
        joules = round(self._joules)
        return {"of": self._meter.names, "joules": joules, "seconds": round(self._at, 1)}


def machine_meter() -> EnergyMeter:
    """Begin to count the energy of this machine."""
    return EnergyMeter([*rapl_counters(RAPL), *nvml_counters()])


@cache
def coarse_meter() -> CoarseMeter:
    """Return the meter of this process that anybody may see."""
    return CoarseMeter(machine_meter())


def rapl_counters(folder: Path) -> Iterator[Counter]:
    """Find the counters of processors and their memory that may be read."""
    for zone in sorted(folder.glob("intel-rapl:*")):  # AMD's have this name, too
        with suppress(OSError, ValueError):
            name = (zone / "name").read_text(encoding="ascii").strip()
            most = _microjoules(zone / "max_energy_range_uj")
            _microjoules(zone / "energy_uj")
            if name.startswith(PARTS):
                yield Counter(name, partial(_microjoules, zone / "energy_uj"), most)


def _microjoules(file: Path) -> float:
    return int(file.read_text(encoding="ascii")) / 1e6


def nvml_counters(load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> Iterator[Counter]:
    """Find the counters of NVIDIA's cards, from Volta on."""
    with suppress(OSError, AttributeError):
        library, count = load(NVML), ctypes.c_uint()
        if library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for at in range(count.value):
            card = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(at, ctypes.byref(card)):
                continue
            read = partial(_of_card, library, card)
            with suppress(OSError):
                read()
                yield Counter(f"GPU {at}", read)


def _of_card(library: ctypes.CDLL, card: ctypes.c_void_p) -> float:
    """Read the millijoules that a card took since its driver was loaded."""
    count = ctypes.c_ulonglong()
    if status := library.nvmlDeviceGetTotalEnergyConsumption(card, ctypes.byref(count)):
        raise OSError(f"NVML reads no energy ({status})")
    return count.value / 1e3

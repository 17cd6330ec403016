"""The processor time of other programs during a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import psutil


class ProcessorTimes(NamedTuple):
    """Seconds of the processors until now: idle, busy, and of the busy ones this process's own."""

    idle: float
    busy: float
    own: float


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Shares of all processors' time, from 0 to 1."""

    own: float = 0.0
    others: float = 0.0


def processor_times() -> ProcessorTimes:
    times, own = psutil.cpu_times()._asdict(), psutil.Process().cpu_times()
    idle = times["idle"] + times.get("iowait", 0.0)
    twice = times.get("guest", 0.0) + times.get("guest_nice", 0.0)  # in user and nice as well
    return ProcessorTimes(idle, sum(times.values()) - idle - twice, own.user + own.system)


class LoadWatch:
    """Measures the load from when it was made."""

    def __init__(self, read: Callable[[], ProcessorTimes] = processor_times) -> None:
        self._read = read
        self._begin = read()

    def load(self) -> MachineLoad:
        idle, busy, own = (
            max(now - then, 0.0) for now, then in zip(self._read(), self._begin, strict=True)
        )
        total = idle + busy
        if not total:
            return MachineLoad()
        return MachineLoad(min(own / total, 1.0), max(busy - own, 0.0) / total)

"""The state of the machine during a measurement: other programs, and the speed of memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from localspec.system.bandwidth import copied_bytes_a_second


class ProcessorTimes(NamedTuple):
    """Seconds of the processors until now: idle, busy, and of the busy ones this process's own."""

    idle: float
    busy: float
    own: float


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Shares of all processors' time, from 0 to 1; bytes a second copied before and after."""

    own: float = 0.0
    others: float = 0.0
    copied: tuple[float, ...] = ()


def processor_times() -> ProcessorTimes:
    times, own = psutil.cpu_times()._asdict(), psutil.Process().cpu_times()
    idle = times["idle"] + times.get("iowait", 0.0)
    twice = times.get("guest", 0.0) + times.get("guest_nice", 0.0)  # in user and nice as well
    return ProcessorTimes(idle, sum(times.values()) - idle - twice, own.user + own.system)


class LoadWatch:
    """Measures the load from when it was made."""

    def __init__(
        self,
        read: Callable[[], ProcessorTimes] = processor_times,
        copied: Callable[[], float] = copied_bytes_a_second,
    ) -> None:
        self._read, self._copied = read, copied
        self._copied_before = copied()
        self._begin = read()

    def load(self) -> MachineLoad:
        idle, busy, own = (
            max(now - then, 0.0) for now, then in zip(self._read(), self._begin, strict=True)
        )
        total = (idle + busy) or math.inf
        shares = min(own / total, 1.0), max(busy - own, 0.0) / total
        return MachineLoad(*shares, (self._copied_before, self._copied()))

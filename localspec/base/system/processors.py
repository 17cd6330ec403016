"""The processors' time: what this process takes of it, and what other programs take."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

CROWDED = 0.15  # a share of the processors in other programs, with which speeds mean little
BUSY_SECONDS = 0.3  # of watching; systems count processor time in steps of 10 ms


class ProcessorTimes(NamedTuple):
    """Seconds of the processors until now: idle and busy; of the busy ones, this process's own.

    yielding: busy ones of programs that give way to this one, by their priority
    """

    idle: float
    busy: float
    own: float
    yielding: float = 0.0

    def since(self, earlier: ProcessorTimes) -> ProcessorTimes:
        """Return the seconds that have gone by; no clock runs backwards."""
        return ProcessorTimes(
            *(max(now - then, 0.0) for now, then in zip(self, earlier, strict=True))
        )

    @property
    def total(self) -> float:
        return (self.idle + self.busy) or math.inf

    @property
    def others(self) -> float:
        """The share of other programs."""
        return max(self.busy - self.own, 0.0) / self.total

    @property
    def rivals(self) -> float:
        """The share of other programs that do not give way."""
        return max(self.busy - self.own - self.yielding, 0.0) / self.total


def processor_times() -> ProcessorTimes:
    times, own = psutil.cpu_times()._asdict(), psutil.Process().cpu_times()
    idle = times["idle"] + times.get("iowait", 0.0)
    twice = times.get("guest", 0.0) + times.get("guest_nice", 0.0)  # in user and nice as well
    busy = sum(times.values()) - idle - twice
    niced = times.get("nice", 0.0)  # of programs of a low priority
    return ProcessorTimes(idle, busy, own.user + own.system, 0.0 if gives_way() else niced)


def gives_way() -> bool:
    """Whether this process itself has a low priority."""
    return sys.platform != "win32" and os.getpriority(os.PRIO_PROCESS, 0) > 0


class RivalWatch:
    """Measures the share of the processors that rivals took since it was last asked.

    Rivals are other programs, but for those of a lower priority.
    """

    def __init__(self, read: Callable[[], ProcessorTimes] = processor_times) -> None:
        self._read, self._last = read, read()

    def share(self) -> float:
        earlier, self._last = self._last, self._read()
        return self._last.since(earlier).rivals


def watched(seconds: float = BUSY_SECONDS) -> ProcessorTimes:
    """Watch the processors for a moment."""
    before = processor_times()
    time.sleep(seconds)
    return processor_times().since(before)


def is_busy() -> bool:
    """Watch the processors for a moment: whether other programs take so much that speeds fall."""
    return watched().rivals > CROWDED

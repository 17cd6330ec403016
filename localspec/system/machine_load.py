"""The state of the machine during a measurement: other programs, and the speed of memory."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import psutil

from localspec.system.bandwidth import copied_bytes_a_second

CROWDED = 0.15  # a share of the processors in other programs, with which speeds mean little
BUSY_SECONDS = 0.3  # of watching; systems count processor time in steps of 10 ms
UNEXPLAINED = 0.5  # of a change of memory's speed, as a logarithm: may be none of a model's


# Beside a model that may have filled the memory: 256 MB for a moment.
copied_beside_a_model = partial(copied_bytes_a_second, copies=5, most_threads=4)


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


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Shares of all processors' time, from 0 to 1; bytes a second copied before and after."""

    own: float = 0.0
    others: float = 0.0
    copied: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> MachineLoad:
        """Read what `asdict` made; raise a KeyError, TypeError or ValueError if it is no load."""
        before, after = map(float, record["copied"])
        if not (0 < before < math.inf and 0 < after < math.inf):
            raise ValueError(f"memory cannot copy {before} and {after} bytes a second")
        return cls(float(record["own"]), float(record["others"]), (before, after))

    @property
    def crowded(self) -> bool:
        return self.others > CROWDED

    @property
    def memory_speed(self) -> float:
        """Bytes a second that were copied, on average."""
        return math.sqrt(math.prod(self.copied))

    @property
    def drift(self) -> float:
        """How far either copy is from the average, as a logarithm."""
        before, after = self.copied
        return abs(math.log(after / before)) / 2


class MachineChange(NamedTuple):
    """How much faster a machine became, as a logarithm, and how unsure that is."""

    faster: float
    error: float

    @classmethod
    def between(cls, before: MachineLoad, now: MachineLoad) -> MachineChange:
        """Take memory's speed for the machine's where it fell; where it rose it accuses nobody.

        Its copies vary by 10%, where plain decoding on a quiet machine varies by 4%.
        """
        faster = min(math.log(now.memory_speed / before.memory_speed), 0.0)
        return cls(faster, math.hypot(UNEXPLAINED * faster, before.drift, now.drift))


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


class LoadWatch:
    """Measures the load from when it was made."""

    def __init__(
        self,
        read: Callable[[], ProcessorTimes] = processor_times,
        copied: Callable[[], float] = copied_beside_a_model,
    ) -> None:
        self._read, self._copied = read, copied
        self._copied_before = copied()
        self._begin = read()

    def load(self) -> MachineLoad:
        times = self._read().since(self._begin)
        own = min(times.own / times.total, 1.0)
        return MachineLoad(own, times.others, (self._copied_before, self._copied()))


class RivalWatch:
    """Tells the share of the processors that rivals took since it was last asked.

    Rivals are other programs, but for those of a lower priority.
    """

    def __init__(self, read: Callable[[], ProcessorTimes] = processor_times) -> None:
        self._read, self._last = read, read()

    def share(self) -> float:
        earlier, self._last = self._last, self._read()
        return self._last.since(earlier).rivals


def is_busy(seconds: float = BUSY_SECONDS) -> bool:
    """Watch the processors for a moment: whether other programs take so much that speeds fall."""
    watch = RivalWatch()
    time.sleep(seconds)
    return watch.share() > CROWDED

"""The state of the machine during a measurement: other programs, and the speed of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from localspec.base.system.bandwidth import copied_bytes_a_second
from localspec.base.system.processors import CROWDED, ProcessorTimes, processor_times

UNEXPLAINED = 0.5  # of a change of memory's speed, as a logarithm: may be none of a model's


# Beside a model that may have filled the memory: 256 MB for a moment.
copied_beside_a_model = partial(copied_bytes_a_second, copies=5, most_threads=4)


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

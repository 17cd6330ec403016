"""The number of threads that computing takes: fewer while other programs use the processors.

The threads of a forward wait for each other at each of its steps. Where one of them has to share a
processor with another program, all wait for its turn: beside a program on two processors, a token
took longer with two threads than with one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import llama_cpp.llama_cpp as lib
import psutil

from localspec.base.system.processors import RivalWatch

# Seconds between two looks at the processors; after so many without any, what happened meanwhile
# says little of now, and another look follows soon. Where that one is late, too, forwards take so
# long, and what it shows is believed.
LOOK_SECONDS, STALE_SECONDS, SOON_SECONDS = 1.0, 5.0, 0.25
BUSY, FREE = 0.25, 0.15  # of a processor in other programs: with more it is busy, with less free
REPORT_SECONDS = 60.0  # between two notices


class Threads:
    """Chooses the threads of the contexts of this process."""

    def __init__(
        self,
        processors: int,
        rivals: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Follow the share of all processors that other programs take, by `rivals`."""
        self._processors, self._rivals, self.clock = processors, rivals, clock
        self._looked = clock()
        self._was_late = False
        self._taken = 0  # processors, by other programs

    def refresh(self) -> None:
        """Look at the processors, unless that was done a moment ago."""
        now = self.clock()
        seconds = now - self._looked
        if seconds < LOOK_SECONDS:
            return
        self._looked, share = now, self._rivals()
        self._was_late = seconds > STALE_SECONDS and not self._was_late
        if self._was_late:
            self._looked -= LOOK_SECONDS - SOON_SECONDS
        else:
            self._taken = taken(self._taken, share * self._processors)

    def count(self, most: int) -> int:
        """Return how many threads are worth it now, of so many at the most."""
        return max(1, min(most, self._processors - self._taken))


def taken(before: int, processors: float) -> int:
    """Round the processors that others take; in doubt they are as many as before."""
    least, most = math.floor(processors + 1 - BUSY), math.floor(processors + 1 - FREE)
    return min(max(before, least), most)


OF_PROCESS = Threads(psutil.cpu_count(logical=False) or 1, RivalWatch().share)


class ContextThreads:
    """The threads of one context, fewer than `most` on a busy machine unless they are fixed."""

    def __init__(
        self, context: object, most: int, *, fixed: bool, threads: Threads = OF_PROCESS
    ) -> None:
        self._context, self._most, self._fixed = context, most, fixed
        self._threads = threads
        self._count, self._reported, self._reported_at = most, most, -math.inf

    def follow(self) -> None:
        """Have the next forward computed by as many threads as are worth it."""
        if self._fixed:
            return
        self._threads.refresh()
        count = self._threads.count(self._most)
        if count != self._count:
            self._count = count
            lib.llama_set_n_threads(self._context, count, count)

    def take_notices(self) -> list[str]:
        """Return how many threads there are if that changed, once a minute at most."""
        now = self._threads.clock()
        if self._count == self._reported or now - self._reported_at < REPORT_SECONDS:
            return []
        self._reported, self._reported_at = self._count, now
        if self._count == self._most:
            return [f"the processors are free again: {self._most} threads"]
        threads = "one thread" if self._count == 1 else f"{self._count} threads"
        return [f"the processors are busy: {threads} in place of {self._most}"]

"""The progress of a measurement: a line that changes in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TextIO, TypeVar

from localspec.console.progress.progress_bar import duration

T = TypeVar("T")
LIVE_SECONDS, LOG_SECONDS = 0.2, 60.0  # seconds between lines, in a terminal and elsewhere


@dataclass(slots=True)
class TimeLeft:
    """Counts finished items, and shows their number and the time left."""

    label: str
    total: int
    seconds: float = math.inf  # that it takes at most
    least: int = 0  # items that are made however long that takes
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic

    def __call__(self, items: Iterable[T]) -> Iterator[T]:
        lively = self.out.isatty()
        start = shown = self.clock()
        self._show(self._line(0, 0.0), lively=lively)
        try:
            for done, item in enumerate(items, 1):
                yield item
                now = self.clock()
                if now - shown >= (LIVE_SECONDS if lively else LOG_SECONDS):
                    shown = now
                    self._show(self._line(done, now - start), lively=lively)
        finally:
            if lively:
                self._show("", lively=True)

    def _line(self, done: int, passed: float) -> str:
        an_item = passed / done if done else math.inf
        by_count = an_item * (self.total - done)
        by_clock = max(self.seconds - passed, 0.0)
        if 0 < done < self.least:
            by_clock = max(by_clock, an_item * (self.least - done))
        left = min(by_count, by_clock)
        about = f", about {duration(left)} left" if math.isfinite(left) else ""
        of = f" of {self.total:,}" if by_count <= by_clock else ""
        return f"{self.label}: {done:,}{of}{about}"

    def _show(self, line: str, *, lively: bool) -> None:
        self.out.write(f"\r{line}\033[K" if lively else f"{line}\n")
        self.out.flush()

"""The progress of long work: a line that changes in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

BAR_WIDTH = 24  # characters
LIVE_SECONDS, LOG_SECONDS = 0.2, 10.0  # seconds between lines, in a terminal and elsewhere
SMOOTHING = 0.3  # what the newest rate counts


class Unit(NamedTuple):
    """The unit that work is counted in, and that of its rate."""

    name: str
    size: float
    digits: int
    rate_name: str
    rate_size: float


BYTES = Unit("GB", 1e9, 2, "MB/s", 1e6)
TEXTS = Unit("texts", 1, 0, "texts/s", 1)
REQUESTS = Unit("requests", 1, 0, "a minute", 1 / 60)


class Progress:
    """A progress bar, used as a context; any thread may count."""

    def __init__(
        self,
        total: int,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        unit: Unit = BYTES,
    ) -> None:
        self._unit = unit
        self._total, self._out, self._clock = total, out or sys.stderr, clock
        self._lively = self._out.isatty()
        self._lock = threading.Lock()
        self._done = self._reported = 0
        self._when = clock()
        self._rate = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._total:
            self._tell(self._clock())
        if self._lively and self._total:
            self._out.write("\n")

    def __call__(self, count: int) -> None:
        with self._lock:
            self._done += count
            now = self._clock()
            if now - self._when >= (LIVE_SECONDS if self._lively else LOG_SECONDS):
                self._tell(now)

    def _tell(self, now: float) -> None:
        seconds = max(now - self._when, 1e-3)
        rate = (self._done - self._reported) / seconds
        self._rate = rate if not self._rate else self._rate + SMOOTHING * (rate - self._rate)
        self._reported, self._when = self._done, now
        self._out.write(f"\r{self.line()}\033[K" if self._lively else f"{self.line()}\n")
        self._out.flush()

    def line(self) -> str:
        share = min(self._done / self._total, 1.0) if self._total else 1.0
        left = max(self._total - self._done, 0) / self._rate if self._rate > 0 else 0.0
        drawn = "#" * round(BAR_WIDTH * share)
        unit = self._unit
        total = f"{self._total / unit.size:,.{unit.digits}f} {unit.name}"
        text = f"[{drawn:<{BAR_WIDTH}}] {share:4.0%} of {total}"
        if self._rate > 0 and share < 1:
            text += f", {self._rate / unit.rate_size:.1f} {unit.rate_name}, {duration(left)} left"
        return text


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

"""The progress of a training: a bar that changes in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from localspec.commands.progress_bar import BAR_WIDTH, duration
from localspec.training.working import WorkTime

LIVE_SECONDS, LOG_SECONDS = 0.5, 60.0  # seconds between lines, in a terminal and elsewhere


@dataclass(slots=True)
class TrainingLine:
    """Shows how much of its time a training has worked, and what it does."""

    work: WorkTime
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _shown: float = -LOG_SECONDS

    def __call__(self, doing: str) -> None:
        lively, now = self.out.isatty(), self.clock()
        if now - self._shown < (LIVE_SECONDS if lively else LOG_SECONDS):
            return
        self._shown = now
        line = f"{self.bar()}: {doing}"
        self.out.write(f"\r{line}\033[K" if lively else f"{line}\n")
        self.out.flush()

    def bar(self) -> str:
        share = min(self.work.seconds / self.work.budget, 1.0)
        drawn = "#" * round(BAR_WIDTH * share)
        return f"[{drawn:<{BAR_WIDTH}}] {share:4.0%}, {duration(self.work.left)} left"

    def close(self) -> None:
        if self.out.isatty():
            self.out.write("\n")

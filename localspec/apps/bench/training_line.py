"""The progress of a training: a bar that changes in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from localspec.apps.training.working import WorkTime
from localspec.console.progress.progress_bar import BAR_WIDTH, duration

LIVE_SECONDS, LOG_SECONDS = 0.5, 60.0  # seconds between lines, in a terminal and elsewhere


@dataclass(slots=True)
class TrainingLine:
    """Shows how much of its time a training has worked, and what it does."""

    work: WorkTime
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _shown: float = 0.0
    _phase: str = ""

    def __call__(self, phase: str, state: str = "") -> None:
        """Show a phase when it begins, and its state now and then."""
        lively, now = self.out.isatty(), self.clock()
        pause = LIVE_SECONDS if lively else LOG_SECONDS
        if phase == self._phase and now - self._shown < pause:
            return
        self._shown, self._phase = now, phase
        line = f"{self.bar()}: {phase}{state and ', '}{state}"
        self.out.write(f"\r{line}\033[K" if lively else f"{line}\n")
        self.out.flush()

    def bar(self) -> str:
        share = min(self.work.seconds / self.work.budget, 1.0)
        drawn = "#" * round(BAR_WIDTH * share)
        return f"[{drawn:<{BAR_WIDTH}}] {share:4.0%}, {duration(self.work.left)} left"

    def close(self) -> None:
        if self.out.isatty():
            self.out.write("\n")

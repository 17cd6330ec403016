"""How far a build is, read from its log, and an estimate of the time that is left."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil

FILES = re.compile(r"^\s*\[ *(\d+)(?:/(\d+)\]|%\])", re.M)  # ninja counts files, make per cent
EARLY_SECONDS = 60  # in which files are too few for an estimate


@dataclass(slots=True)
class BuildProgress:
    """Lines for a user while a log grows."""

    last: str = ""  # line of the log
    done: int = 0
    total: int = 0  # 0 until something is compiled
    begun_seconds: float = 0

    def feed(self, text: str, seconds: float) -> None:
        """Read on in the log, `seconds` after the command began."""
        lines = text.strip().splitlines()
        self.last = lines[-1].strip() if lines else self.last
        for done, total in FILES.findall(text):
            if not self.total:
                self.begun_seconds = seconds
            if int(total or 100) >= self.total:  # less is a build of a tool inside of this one
                self.done, self.total = int(done), int(total or 100)

    def line(self, seconds: float) -> str:
        """Describe the files done and the time left, or the last line where nothing is compiled."""
        minutes, seconds_left = divmod(int(seconds), 60)
        clock = f"{minutes}:{seconds_left:02}"
        if not self.total or self.done == self.total:
            return f"{clock} {self.last}"
        return f"{clock} compiled {self.count()}{self.left(seconds)}"

    def count(self) -> str:
        return f"{self.done} of {self.total} files" if self.total != 100 else f"{self.done}%"

    def left(self, seconds: float) -> str:
        taken = seconds - self.begun_seconds
        if seconds < EARLY_SECONDS or not self.done:
            return ""
        minutes = ceil(taken / self.done * (self.total - self.done) / 60)
        return f", about {minutes} {'minute' if minutes == 1 else 'minutes'} left"

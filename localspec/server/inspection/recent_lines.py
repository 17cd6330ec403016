"""The last lines of the server's log, for clients that may manage its models."""

from __future__ import annotations

import logging
from collections import deque

from localspec.server.monitoring.log_lines import LINE, TIME

MAX_LINES = 500
MAX_CHARACTERS = 2_000  # of a line


class RecentLines(logging.Handler):
    """Keeps lines with their numbers; any thread may log."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(LINE, TIME))
        self._lines: deque[tuple[int, str]] = deque(maxlen=MAX_LINES)
        self._last = 0

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)[:MAX_CHARACTERS]
        self._last += 1
        self._lines.append((self._last, line))

    def after(self, number: int) -> dict[str, object]:
        """Return the lines behind a number, and the number of the last one."""
        self.acquire()
        try:
            lines = [line for at, line in self._lines if at > number]
            return {"lines": lines, "last": self._last}
        finally:
            self.release()

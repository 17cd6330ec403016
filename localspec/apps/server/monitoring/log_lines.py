"""The lines of the server's log: each with its time, on standard error or in a file."""

from __future__ import annotations

import logging
from collections import deque
from logging.handlers import WatchedFileHandler
from pathlib import Path

from localspec.base.errors import UsageError

LINE = "%(asctime)s localspec: %(message)s"
TIME = "%Y-%m-%d %H:%M:%S"
MAX_LINES = 500  # that clients may see
MAX_CHARACTERS = 2_000  # of one of these


def begin_log(file: Path | None) -> None:
    """Log from now on; a file that is moved away or deleted is begun anew."""
    try:
        handler = (
            logging.StreamHandler() if file is None else WatchedFileHandler(file, "a", "utf-8")
        )
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"the log cannot be written to {file} ({reason}): choose another --log-file"
        ) from error
    handler.setFormatter(logging.Formatter(LINE, TIME))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


class RecentLines(logging.Handler):
    """Keeps the last lines, with their numbers, for clients that may manage models."""

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
        """Return the lines after a number, and the number of the last one."""
        self.acquire()
        try:
            lines = [line for at, line in self._lines if at > number]
            return {"lines": lines, "last": self._last}
        finally:
            self.release()

"""The lines of the server's log: each with its time, on standard error or in a file."""

from __future__ import annotations

import logging
from logging.handlers import WatchedFileHandler
from pathlib import Path

from localspec.errors import UsageError

LINE = "%(asctime)s localspec: %(message)s"
TIME = "%Y-%m-%d %H:%M:%S"


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

"""Write files atomically."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Replace a file by a text, readable for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def whole(text: str) -> str:
    """Replace lone surrogates, which cannot be written."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

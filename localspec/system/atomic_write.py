"""Write a file so that nobody ever reads half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(place: Path, text: str) -> None:
    """Put a text in the place of what was there, readable for its owner alone."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, part = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(place)
    finally:
        Path(part).unlink(missing_ok=True)


def whole(text: str) -> str:
    """A text that can be written: halves of characters, which have no bytes, are replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

"""Write files atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, suffix: str = "") -> Iterator[BinaryIO]:
    """Write a file, readable for its owner alone, that gets its name once it is whole."""
    handle, part = tempfile.mkstemp(suffix, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def write(path: Path, text: str) -> None:
    """Replace a file by a text, readable for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path) as file:
        file.write(text.encode())


def whole(text: str) -> str:
    """Replace lone surrogates, which cannot be written."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

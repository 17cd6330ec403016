"""JSON files of LocalSpec itself, read without trusting their content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Any]:
    """Read the object of a file; raise an OSError if there is no file, else a ValueError."""
    return decode(path.read_bytes())


def decode(data: bytes) -> dict[str, Any]:
    """Decode an object; raise a ValueError if it is none, or nested too deeply to be read."""
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value

"""JSON files that LocalSpec keeps for itself, read without trusting their content."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from localspec.base.system import folders
from localspec.base.system.atomic_write import write

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def load(path: Path, parse: Callable[[dict[str, Any]], T | None]) -> T | None:
    """Parse the object of a file; None if there is no file, or no object that can be used."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return parse(read(path))
    return None


def newest(
    folder: Path, parse: Callable[[dict[str, Any]], T | None], count: int | None = None
) -> list[T]:
    """Parse the files in a folder that can be used, or so many of them, the newest first."""
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(folder.glob("*.json"), key=lambda file: -file.stat().st_mtime)
    values = (load(path, parse) for path in paths)
    return list(islice((value for value in values if value is not None), count))


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


def keep(path: Path, value: object) -> bool:
    """Write an object; False where that cannot be done, as a full disk is no reason to fail."""
    try:
        write(path, json.dumps(value, default=str))
    except OSError as error:
        cache_folder = folders.cache()
        folder = cache_folder if path.is_relative_to(cache_folder) else path.parent
        _warn(folder, (error.strerror or str(error)).lower())
        return False
    return True


def drop_all(folder: Path) -> int:
    """Remove the files in a folder; return how many there were."""
    paths = list(folder.glob("*.json"))
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


@cache
def _warn(folder: Path, why: str) -> None:
    """Say once what cannot be kept: each start measures again then."""
    LOG.warning("cannot keep measurements in %s: %s", folder, why)

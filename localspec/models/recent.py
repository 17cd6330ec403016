"""The models that commands loaded lately, by their names, or by their paths."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from localspec.models.sources import place
from localspec.system import folders, kept_json
from localspec.system.atomic_write import write

MAX_NAMES = 8


def file() -> Path:
    return folders.data() / "recent.json"


def names() -> list[str]:
    """Read the names, the latest first; a file with anything else in it holds none."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [name for name in kept_json.read(file())["names"] if isinstance(name, str)][
            :MAX_NAMES
        ]
    return []


def remember(name: str) -> None:
    """Put a model first; a path is kept so that it means the same from other folders."""
    path = place(name)
    if path.exists():
        name = str(path.absolute())
    others = [other for other in names() if other != name]
    with suppress(OSError):  # a full disk is no reason to fail
        write(file(), json.dumps({"names": [name, *others][:MAX_NAMES]}, indent=1))

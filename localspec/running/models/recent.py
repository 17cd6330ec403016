"""The models that commands loaded lately, by their names, or by their paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localspec.base.system import folders, kept_json
from localspec.running.models.sources import expand_home

MAX_NAMES = 8


def file() -> Path:
    return folders.data() / "recent.json"


def names() -> list[str]:
    """Read the names, the latest first; a file with anything else in it holds none."""
    return kept_json.load(file(), _names) or []


def _names(record: dict[str, Any]) -> list[str]:
    return [name for name in record["names"] if isinstance(name, str)][:MAX_NAMES]


def remember(name: str) -> None:
    """Put a model first; a path is kept so that it means the same from other folders."""
    path = expand_home(name)
    if path.exists():
        name = str(path.absolute())
    others = [other for other in names() if other != name]
    kept_json.keep(file(), {"names": [name, *others][:MAX_NAMES]})

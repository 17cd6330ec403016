"""The user's folders, as the package platformdirs names them, which may not be installed yet."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data() -> Path:
    """Return the folder for what has to stay: CUDA's libraries, and the choice of a build."""
    if sys.platform == "win32":
        return _windows()
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/localspec"
    return _by_xdg("XDG_DATA_HOME", ".local/share")


def cache() -> Path:
    """Return the folder for what can be made again: wheels and logs."""
    if sys.platform == "win32":
        return _windows() / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/localspec"
    return _by_xdg("XDG_CACHE_HOME", ".cache")


def _windows() -> Path:
    return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "localspec"


def _by_xdg(variable: str, usual: str) -> Path:
    folder = os.environ.get(variable, "").strip()
    return (Path(folder) if folder else Path.home() / usual) / "localspec"

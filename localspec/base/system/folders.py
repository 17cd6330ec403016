"""The user's folders: configuration, data and cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

from localspec.base.errors import UsageError


def configuration() -> Path:
    return platformdirs.user_config_path("localspec", appauthor=False)


def data() -> Path:
    return platformdirs.user_data_path("localspec", appauthor=False)


def cache() -> Path:
    return platformdirs.user_cache_path("localspec", appauthor=False)


def make_private(folder: Path) -> None:
    """Make a folder that other users cannot write to, since what is in it is trusted."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError as error:
        raise UsageError(f"{folder} cannot be used to keep texts in: {error.strerror}") from error
    if sys.platform != "win32" and (info.st_uid != os.getuid() or info.st_mode & 0o022):
        raise UsageError(f"others can write to {folder}: choose a folder of your own, of mode 700")

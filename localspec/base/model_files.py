"""The files of a model, which is a file or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def bare_name(path: Path) -> str:
    """Return a file's name without its suffix; a folder's may have dots, and has no suffix."""
    return path.name if path.is_dir() else path.stem


def files_of(path: Path) -> Sequence[Path]:
    """List a file, or the files of a folder: of a model's, those in folders below it, too."""
    if not path.is_dir():
        return [path]
    files = path.rglob("*") if (path / "config.json").exists() else path.glob("*")
    return sorted(file for file in files if file.is_file())

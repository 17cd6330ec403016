"""The files of a model, which is a file or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class RemoteModel(NamedTuple):
    """A model among the files of a hub's repository."""

    name: str  # by which it is asked for, if there are several
    files: tuple[str, ...]  # all of it, in order
    # Or the kind of a drafter, as "mtp", or "projector"; anything else only lies beside it.
    role: str = "model"
    lacks: str = ""  # of its files, as "part 2 of 3"


def bare_name(path: Path) -> str:
    """Return a file's name without its suffix; a folder's may have dots, and has no suffix."""
    return path.name if path.is_dir() else path.stem


def files_of(path: Path) -> Sequence[Path]:
    """List a file, or the files of a folder: of a model's, those in folders below it, too."""
    if not path.is_dir():
        return [path]
    files = path.rglob("*") if (path / "config.json").exists() else path.glob("*")
    return sorted(file for file in files if file.is_file())

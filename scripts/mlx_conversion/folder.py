"""A folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localspec.errors import ModelFileError, UsageError


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Fill `FOLDER.partial`, which gets its name once it is complete and else is removed."""
    folder = Path(os.path.abspath(folder))
    try:
        partial = claim(folder)
        try:
            yield partial
            if folder.exists():
                folder.rmdir()
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ModelFileError(f"{folder} cannot be written: {error.strerror or error}") from None


def claim(folder: Path) -> Path:
    if folder.is_symlink() or (folder.exists() and not is_empty(folder)):
        raise UsageError(f"{folder} is there already: give the name of a new folder")
    partial = folder.with_name(folder.name + ".partial")
    if partial.exists():
        raise UsageError(f"{partial} is left of another conversion, or in use by it: remove it")
    partial.mkdir(parents=True)
    return partial


def is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())

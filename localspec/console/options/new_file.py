"""New files that commands write: places where one cannot be are refused before any work."""

from __future__ import annotations

from pathlib import Path

from localspec.base.errors import UsageError


def require_new(out: Path) -> None:
    """Refuse a file that exists, or whose folder does not."""
    if out.exists():
        raise UsageError(f"{out} is there already: name another with --out")
    require_folder(out)


def require_folder(out: Path) -> None:
    """Refuse a file whose folder does not exist."""
    if not out.absolute().parent.is_dir():
        raise UsageError(f"{out} cannot be written: there is no folder {out.parent}")

"""The drafters that were trained on this machine, each for the model whose weights it knows."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from localspec.base.system import folders, kept_json
from localspec.base.system.atomic_write import write
from localspec.base.system.fingerprint import fingerprint


def drafters_folder() -> Path:
    return folders.data() / "trained"


def key_of(target: Path) -> str:
    """Return a key of a model's weights: those of another file of the same name have another."""
    return fingerprint([target], [])


def drafter_of(target: Path) -> Path | None:
    """Find the drafter that was trained for a model, if it is still there."""
    if not drafters_folder().exists():
        return None
    with suppress(OSError, ValueError, KeyError):
        drafter = Path(kept_json.read(_record_path(target))["drafter"])
        return drafter if drafter.exists() else None
    return None


def keep(target: Path, drafter: Path) -> None:
    """Let a drafter draft for a model from now on."""
    names = {"target": str(target.absolute()), "drafter": str(drafter.absolute())}
    write(_record_path(target), json.dumps(names, indent=1))


def _record_path(target: Path) -> Path:
    return drafters_folder() / f"{key_of(target)}.json"

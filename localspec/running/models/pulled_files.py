"""Copies of models that were pulled, under another name; and their removal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.running.models import catalogue, store
from localspec.running.models.catalogue_file import NAME
from localspec.running.models.stored_pair import PulledPair


def copy(pairs: Sequence[PulledPair], new_name: str) -> None:
    """Register models under another name, with the files that they have."""
    if not NAME.fullmatch(new_name):
        raise UsageError(f"{new_name[:80]!r} is no name: it must match {NAME.pattern}")
    if new_name in catalogue.entries() or store.find(new_name):
        raise UsageError(f"there is a model {new_name} already: choose another name")
    for pair in pairs:
        store.keep(replace(pair, name=new_name, owner=""))


def forget(pairs: Sequence[PulledPair]) -> int:
    """Forget pairs, and remove what was downloaded for them alone; return the bytes freed."""
    for pulled in pairs:
        if pulled.owner:
            raise UsageError(f"{pulled.name} lies in {pulled.owner}'s store: remove it there")
    for pulled in pairs:
        store.forget(pulled)
    used = {
        file.path for pair in store.everything() for model in pair.models for file in model.files
    }
    freed = 0
    for pulled in pairs:
        for model in pulled.models:
            if model.source.startswith(("hf:", "http")):
                freed += sum(
                    remove_file(file.path) for file in model.files if file.path not in used
                )
    return freed


def remove_file(path: Path) -> int:
    """Remove a file, and its blob in the hub's cache; return the bytes freed."""
    if not os.path.lexists(path):
        return 0
    blob = path.resolve()
    count = blob.stat().st_size if blob.exists() else 0
    path.unlink()
    if blob != path and blob.exists():
        blob.unlink()
    return count

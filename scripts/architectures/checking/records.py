"""Records of results, kept beside the files, for the versions they were found with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from localspec.apps.bench.machine import ROOT, versions


def compute_once(folder: Path, name: str, key: str, find: Callable[[], object]) -> object:
    """Return what is kept under this key, or keep and return what `find` gives."""
    file = folder / f"{name}.json"
    if file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return kept["found"]
    value = find()
    folder.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(".part")
    aside.write_text(json.dumps({"key": key, "found": value}), encoding="utf-8")
    aside.replace(file)
    return json.loads(json.dumps(value))


def key_of_engine(path: Path) -> str:
    return digest([path], versions())


def digest_of(values: object) -> str:
    return digest([], repr(values))


@cache
def sources() -> str:
    """Hash LocalSpec's own sources."""
    return digest(sorted(file for part in ("localspec", "backends") for file in code(ROOT / part)))


def code(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*.py") if file.is_file())


def digest(paths: list[Path], also: str = "") -> str:
    """Hash files, and the files of folders."""
    made = hashlib.sha256(also.encode())
    for path in paths:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            made.update(file.name.encode())
            made.update(file.read_bytes())
    return made.hexdigest()

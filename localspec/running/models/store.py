"""The models that are here by name.

A record for each pair is written once all of it is there and right.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container
from dataclasses import asdict
from pathlib import Path
from typing import Any

from localspec.base.errors import PullError
from localspec.base.system import folders, kept_json
from localspec.base.system.atomic_write import write
from localspec.running.models import other_stores
from localspec.running.models.stored_pair import File, PulledPair, StoredModel


def folder() -> Path:
    return folders.data() / "pulled"


def keep(pulled: PulledPair) -> None:
    """Write a record atomically."""
    path = _record_path(pulled.name, pulled.weights, pulled.engine)
    try:
        write(path, json.dumps(asdict(pulled), indent=1, default=os.fspath))
    except OSError as error:
        raise PullError(f"{pulled.name} cannot be registered: {error}") from error


def everything() -> list[PulledPair]:
    """Read all valid records, by name; then what other programs have downloaded."""
    paths = sorted(folder().glob("*.json"))
    own = [pair for path in paths if (pair := kept_json.load(path, _pair))]
    return [*own, *other_stores.everything()]


def find(name: str, engines: Container[str] | None = None) -> list[PulledPair]:
    """Find a pulled model by name, with all its files still there."""
    name, _, weights = name.partition(":")
    return [
        pulled
        for pulled in everything()
        if pulled.name == name
        and (engines is None or pulled.engine in engines)
        and weights in ("", pulled.weights)
        and all(model.whole for model in pulled.models)
    ]


def forget(pulled: PulledPair) -> None:
    _record_path(pulled.name, pulled.weights, pulled.engine).unlink(missing_ok=True)


def _record_path(name: str, weights: str, engine: str) -> Path:
    return folder() / f"{name}@{weights}@{engine}.json"


def _pair(record: dict[str, Any]) -> PulledPair:
    draft, projector = (
        record.get(part) and _stored_model(record[part]) for part in ("draft", "projector")
    )
    return PulledPair(
        record["name"],
        record["weights"],
        str(record["engine"]),
        _stored_model(record["target"]),
        record["drafter"],
        draft,
        projector,
    )


def _stored_model(record: dict[str, object]) -> StoredModel:
    listed = record["files"]
    if not isinstance(listed, list):
        raise TypeError("files")
    files = tuple(
        File(Path(entry["path"]), int(entry["bytes"]), str(entry["sum"]), bool(entry["large"]))
        for entry in listed
    )
    return StoredModel(str(record["source"]), Path(str(record["path"])), files)

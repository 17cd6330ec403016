"""The records of pulled models, one for each pair, written once all of it is there and right."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from localspec.base.errors import PullError
from localspec.base.system import folders, kept_json
from localspec.base.system.atomic_write import write

UNUSED = "unused"  # in place of the kind of a drafter that its engine does not run


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    bytes: int
    sum: str
    large: bool  # by which the sum is sha256 rather than git's


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model, or a drafter, on disk."""

    source: str
    path: Path  # what is loaded: a GGUF, the first of its parts, or a folder
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def whole(self) -> bool:
        """Whether all files are still there, by name and size."""
        return all(
            file.path.exists() and file.path.stat().st_size == file.bytes for file in self.files
        )


@dataclass(frozen=True, slots=True)
class PulledPair:
    name: str
    weights: str
    engine: str
    target: StoredModel
    drafter: str = "none"
    draft: StoredModel | None = None
    projector: StoredModel | None = None

    @property
    def draft_path(self) -> Path | None:
        """The file that drafts for the model, if it can be used."""
        return self.draft.path if self.draft and self.drafter != UNUSED else None

    @property
    def models(self) -> tuple[StoredModel, ...]:
        return tuple(model for model in (self.target, self.draft, self.projector) if model)

    @property
    def bytes(self) -> int:
        return sum(model.bytes for model in self.models)


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
    """Read all valid records, by name."""
    paths = sorted(folder().glob("*.json"))
    return [pair for path in paths if (pair := kept_json.load(path, _pair))]


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

"""A model on disk with what drafts for it, as records and stores describe it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
    owner: str = ""  # the program whose store it lies in; empty: it was pulled

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

"""The files of a repository, and those among them that make a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from localspec.base.errors import PullError
from localspec.interfaces.backend_spec import BackendSpec, RemoteModel

DRAFTERS = ("mtp", "eagle3", "dflash")  # roles of what lies beside a model and drafts for it
PROJECTOR = "projector"  # the role of what a model sees by


@dataclass(frozen=True, slots=True)
class Remote:
    """One file as the hub lists it."""

    name: str
    size: int
    sum: str  # sha256 of a large file, git's for a small one
    large: bool


@dataclass(frozen=True, slots=True)
class Listing:
    repository: str
    revision: str  # a commit
    files: tuple[Remote, ...]

    def models(self, spec: BackendSpec) -> Sequence[RemoteModel]:
        """List the models for an engine, drafters included."""
        names = [file.name for file in self.files]
        if spec.models is not None:
            return spec.models(names)
        return [RemoteModel(name, (name,)) for name in names if spec.claims(Path(name))]

    def remotes(self, model: RemoteModel) -> tuple[Remote, ...]:
        if model.lacks:
            raise PullError(f"{self.repository} lacks {model.lacks}")
        by_name = {file.name: file for file in self.files}
        if strange := [name for name in model.files if name not in by_name]:
            raise PullError(f"{self.repository} has no {strange[0]}, which its engine asks for")
        return tuple(by_name[name] for name in model.files)


def fitting(models: Sequence[RemoteModel], pattern: str, weights: str = "") -> list[RemoteModel]:
    """Choose models by a name or a pattern, else by quantisation; an only model always fits."""
    if pattern:
        return [model for model in models if is_named(model, pattern)]
    own = [model for model in models if model.role == "model"]
    if not weights or len(own) == 1:
        return own
    word = re.compile(rf"(^|[-_./]){re.escape(weights)}([-_.]|$)", re.I)
    return [model for model in own if word.search(model.name)]


def is_named(model: RemoteModel, pattern: str) -> bool:
    pattern, suffix = pattern.lower(), PurePosixPath(model.files[0]).suffix.lower()
    named = fnmatch(model.name.lower(), pattern.removesuffix(suffix))
    return named or any(fnmatch(name.lower(), pattern) for name in model.files)


def choose_model(
    listing: Listing, spec: BackendSpec, pattern: str, weights: str = ""
) -> RemoteModel:
    """Choose the one model of a pattern or of weights; `PullError` lists several."""
    models = listing.models(spec)
    matches = fitting(models, pattern, weights)
    if len(matches) != 1:
        own = [model for model in models if model.role == "model"]
        names = sorted(model.name for model in matches or own) or [f"nothing like {spec.kind}"]
        count = "several models" if matches else "no model"
        purpose = f" for {pattern or weights}" if pattern or weights else ""
        raise PullError(
            f"{listing.repository} has {count}{purpose}: name one; there are: {', '.join(names)}"
        )
    return matches[0]


def drafter(listing: Listing, spec: BackendSpec) -> RemoteModel | None:
    """Find the first drafter among the files, if there is one."""
    whole = (model for model in listing.models(spec) if not model.lacks)
    return next((model for model in whole if model.role in DRAFTERS), None)


def projector(listing: Listing, spec: BackendSpec) -> RemoteModel | None:
    """Find the projector among the files, if there is one, in whichever types."""
    files = [model for model in listing.models(spec) if model.role == PROJECTOR]
    if not files or spec.projectors is None:
        return None
    return spec.projectors.choose(files)

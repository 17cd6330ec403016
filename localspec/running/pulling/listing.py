"""The files of a repository, and those among them that make a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from localspec.base.errors import PullError
from localspec.base.model_files import RemoteModel
from localspec.running.models.engines import Engine

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
    """The files of a repository, at a commit."""

    repository: str
    revision: str  # a commit
    files: tuple[Remote, ...]

    def models(self, engine: Engine) -> Sequence[RemoteModel]:
        """List the models for an engine, drafters included."""
        names, spec = [file.name for file in self.files], engine.spec
        if spec.models is not None:
            return spec.models(names)
        return [RemoteModel(name, (name,)) for name in names if spec.claims(Path(name))]

    def taker(self, engines: Sequence[Engine], pattern: str) -> Engine:
        """Find the first engine that takes the files of a pattern, or any file; else the first."""
        for name in (pattern, ""):
            for engine in engines:
                if fitting(self.models(engine), name):
                    return engine
        return engines[0]

    def choose(self, engine: Engine, pattern: str, weights: str = "") -> RemoteModel:
        """Choose the one model of a pattern or of weights; `PullError` lists several."""
        models = self.models(engine)
        matches = fitting(models, pattern, weights)
        if len(matches) != 1:
            own = [model for model in models if model.role == "model"]
            names = sorted(model.name for model in matches or own)
            listed = ", ".join(names) or f"nothing like {engine.spec.kind}"
            count = "several models" if matches else "no model"
            purpose = f" for {pattern or weights}" if pattern or weights else ""
            raise PullError(
                f"{self.repository} has {count}{purpose}: name one; there are: {listed}"
            )
        return matches[0]

    def drafter(self, engine: Engine) -> RemoteModel | None:
        """Find the first drafter among the files that is there whole."""
        whole = (model for model in self.models(engine) if not model.lacks)
        return next((model for model in whole if model.role in DRAFTERS), None)

    def projector(self, engine: Engine) -> RemoteModel | None:
        """Find the projector among the files, if there is one, in whichever types."""
        files = [model for model in self.models(engine) if model.role == PROJECTOR]
        projectors = engine.spec.projectors
        return projectors.choose(files) if files and projectors else None

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

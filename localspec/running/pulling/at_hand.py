"""The models on this machine, usable without a download."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localspec.base.errors import LocalSpecError, NotPulled, PullError
from localspec.running.models import recent, store
from localspec.running.models.catalogue import entries
from localspec.running.models.engines import AUTO
from localspec.running.models.entry import Entry
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.sources import LocalFiles, Package

LATELY, PULLED, INSTALLED, OWN = "used lately", "pulled", "installed", "your own file"


@dataclass(frozen=True, slots=True)
class ModelAtHand:
    name: str  # or its path
    files: ModelFiles
    why: str  # it is at hand

    @property
    def bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files.engine.spec.files(self.files.path))

    @property
    def sees(self) -> bool:
        """Whether a projector was pulled with it or lies beside it."""
        return self.files.with_projector().projector is not None

    @property
    def entry(self) -> Entry | None:
        """Its entry in the catalogue, if there is one."""
        return entries().get(self.name.partition(":")[0])


def at_hand(backend: str = AUTO) -> list[ModelAtHand]:
    """List models that are here for an engine: those used lately, the pulled, the installed."""
    models: dict[Path, ModelAtHand] = {}
    for name, why in names_with_reasons():
        with suppress(LocalSpecError, OSError):
            files = locate(name, backend)
            models.setdefault(files.path, ModelAtHand(name, files, why))
    return list(models.values())


def first_at_hand(backend: str = AUTO) -> ModelAtHand:
    """Choose the model that was used last, else the first that is here, to continue texts."""
    for model in at_hand(backend):
        with suppress(LocalSpecError):
            if model.files.engine.backend().inspect(model.files.path).kind == "text":
                return model
    raise NotPulled(
        "no model is here yet: `localspec list` shows those that fit this machine; get one by "
        "localspec pull NAME, or give the path of a file"
    )


def who_sees(backend: str = AUTO) -> str:
    """Return which models that are here take pictures."""
    names = [model.name for model in at_hand(backend) if model.sees]
    if not names:
        return "no model here takes any: pull one with a projector, which `localspec list` shows"
    return f"these here do: {', '.join(names)}"


def names_with_reasons() -> Iterator[tuple[str, str]]:
    yield from ((name, LATELY) for name in recent.names())
    yield from ((f"{pulled.name}:{pulled.weights}", PULLED) for pulled in store.everything())
    for entry in entries().values():
        sources = [w.source for offer in entry.offers.values() for w in offer.weights.values()]
        if any(isinstance(source, Package) for source in sources):
            yield entry.name, INSTALLED
        elif any(isinstance(source, LocalFiles) for source in sources):
            yield entry.name, OWN


def instead_of(name: str, backend: str = AUTO) -> str:
    """Name a model to go on with where another cannot be had; "" if there is none."""
    bare = name.partition(":")[0]
    others = (model.name for model in at_hand(backend) if model.name.partition(":")[0] != bare)
    return next(others, "")


def with_a_way_on(error: PullError, model: str, backend: str) -> PullError:
    """Add to a failed pull's error a model to use instead."""
    other = instead_of(model, backend)
    hint = f"; or try {other}, which is here: localspec chat {other}" if other else ""
    return PullError(f"{error}{hint}")

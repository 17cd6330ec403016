"""The files on this machine that a name or a path stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.base.errors import NotPulled, UnknownModel, require_known
from localspec.running.models import store, trained
from localspec.running.models.catalogue import choose, entries, find
from localspec.running.models.engines import AUTO, Engine, candidates, claiming, engine, taker
from localspec.running.models.entry import Entry, Offer
from localspec.running.models.ollama_names import listed_name
from localspec.running.models.sources import (
    LocalFiles,
    Package,
    as_hub_source,
    expand_home,
    is_there,
    source,
)
from localspec.running.models.stored_pair import PulledPair


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Weights on this machine, and what they were pulled with or lies beside them."""

    engine: Engine
    path: Path
    draft: Path | None = None
    projector: Path | None = None  # by which the model sees
    blind: str = ""  # why no projector is taken although there are some
    name: str = field(default="", compare=False)  # by which it was found; empty: by its path

    def with_projector(self) -> ModelFiles:
        """Look for a projector beside the weights, where none was pulled with them."""
        projectors = self.engine.spec.projectors
        if self.projector or projectors is None:
            return self
        match projectors.find(self.path):
            case str(why):
                return replace(self, blind=why)
            case projector:
                return replace(self, projector=projector.path)


def locate(name_or_path: str, backend: str = AUTO) -> ModelFiles:
    """Find the weights of a named model, or of a path, on this machine, and what drafts for it."""
    files = _locate(name_or_path, backend)
    name = "" if is_there(expand_home(name_or_path)) else name_or_path
    return replace(files, draft=files.draft or trained.drafter_of(files.path), name=name)


def _locate(name_or_path: str, backend: str) -> ModelFiles:
    path = expand_home(name_or_path)
    if is_there(path):
        return ModelFiles(taker(path, backend), path)
    if pulled := _choose_pulled(name_or_path, candidates(backend)):
        target, projector = pulled.target.path, pulled.projector
        return ModelFiles(
            engine(pulled.engine), target, pulled.draft_path, projector.path if projector else None
        )
    if (listed := listed_name(name_or_path)) != name_or_path:
        return _locate(listed, backend)
    name, _, weights = name_or_path.partition(":")
    if "/" in name_or_path or len(path.parts) > 1 or (not weights and claiming(path)):
        hub = "" if claiming(path) else as_hub_source(name_or_path)
        hint = f"; a repository of the hub is pulled by: localspec pull {hub}" if hub else ""
        raise UnknownModel(f"there is no file {name_or_path}{hint}")
    entry = find(name)
    return _unpulled(entry, choose(entry, backend), weights)


def _choose_pulled(name: str, engines: Sequence[Engine]) -> PulledPair | None:
    """Choose among several pulled under a name: the first by engine and by the catalogue."""
    formats = {engine.name: engine.spec.format for engine in engines}
    pairs = store.find(name, formats)
    if not pairs or (entry := entries().get(name.partition(":")[0])) is None:
        return next(iter(pairs), None)

    def order(pulled: PulledPair) -> tuple[int, int]:
        offer = entry.offers.get(formats[pulled.engine])
        listed = list(offer.weights) if offer else []
        rank = listed.index(pulled.weights) if pulled.weights in listed else len(listed)
        return list(formats).index(pulled.engine), rank

    return min(pairs, key=order)


def _unpulled(entry: Entry, engine: Engine, weights: str) -> ModelFiles:
    """Find weights that need no pulling: in an installed package, or a file of the user's own."""
    offer = entry.offers[engine.spec.format]
    if weights:
        require_known(entry.name, weights, offer.weights)
    for listed in [offer.weights[weights]] if weights else offer.weights.values():
        match listed.source:
            case Package() as package:
                if path := package.find():
                    return ModelFiles(engine, path)
                raise NotPulled(f"{entry.name} is not installed: {listed.install}")
            case LocalFiles(path):
                if not path.exists():
                    raise UnknownModel(f"there is no file {path}, for which {entry.name} stands")
                if _is_complete(offer):
                    draft = _locate(offer.draft, engine.name).path if offer.draft else None
                    return ModelFiles(engine, path, draft)
    full_name = f"{entry.name}:{weights}" if weights else entry.name
    raise NotPulled(f"{full_name} is not here yet: localspec pull {full_name}")


def _is_complete(offer: Offer) -> bool:
    """Whether nothing has to be pulled with the weights; a draft may be another name, or a path."""
    drafter = source(offer.draft) if offer.draft else None
    return not offer.projector and isinstance(drafter, LocalFiles | None)

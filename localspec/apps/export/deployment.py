"""A pair for another engine: weights, drafter, and the settings that carry over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.base.errors import UsageError, require_known
from localspec.running.models import store, trial
from localspec.running.models.catalogue import entries, find
from localspec.running.models.engines import all_engines, taker
from localspec.running.models.entry import Entry, Offer
from localspec.running.models.sources import LocalFiles, Package, Source, expand_home, source

LOOKUP = "ngram"  # drafts for every model: what followed the same words earlier in the text
USUAL_DEPTH = 3  # draft tokens a round, as the examples of most engines have it
ANY = ""  # format of an engine that runs the weights as their makers published them


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """One model of a pair, wherever its weights are."""

    name: str
    source: Source  # of the weights that LocalSpec runs
    weights: str = ""  # their quantisation
    original: str = ""  # ORG/REPOSITORY of the weights as their makers published them
    vocabulary: int = 0  # 0: unknown
    drafts_as: str = "model"  # or the kind of head that it is

    @property
    def path(self) -> Path | None:
        """The file or folder, if it is here."""
        if isinstance(self.source, Package):
            return self.source.find()
        return self.source.path if isinstance(self.source, LocalFiles) else None

    def file(self) -> str:
        """Name the file or folder; raise if it is not here."""
        if path := self.path:
            return str(path)
        raise UsageError(f"{self.name} is not here, and that engine needs it: pull it first")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the whole engine; None leaves one to it."""

    depth: int = USUAL_DEPTH
    context: int | None = None
    slots: int | None = None
    kv_type: str = "auto"


@dataclass(frozen=True, slots=True)
class Deployment:
    """A target, its drafter by the catalogue's kind, and how they are to run."""

    target: ExportedModel
    drafter: str = LOOKUP
    draft: ExportedModel | None = None  # the file of the drafter, if it has one
    settings: Settings = field(default_factory=Settings)
    sampling: Mapping[str, float] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return self.settings.depth

    @property
    def drafts(self) -> bool:
        return self.depth > 0

    @property
    def quantised(self) -> bool:
        """Whether keys and values take less than 16 bits."""
        return self.settings.kv_type not in ("auto", "f16")

    def without_draft(self, depth: int | None = None) -> Deployment:
        """Replace the drafter by prompt lookup, with the same depth or another."""
        depth = self.depth if depth is None else depth
        settings = replace(self.settings, depth=depth)
        return replace(self, drafter=LOOKUP, draft=None, settings=settings)

    @property
    def one_vocabulary(self) -> bool:
        """Whether target and draft have vocabularies of one size, where both sizes are known."""
        sizes = {
            model.vocabulary for model in (self.target, self.draft) if model and model.vocabulary
        }
        return len(sizes) < 2


@dataclass(frozen=True, slots=True)
class PairNames:
    """A pair to export, as the command line names it."""

    model: str  # a name of the catalogue, or a path
    draft: str = ""
    original: str = ""
    draft_original: str = ""


def deployment(names: PairNames, format: str, settings: Settings) -> Deployment:
    """Describe a pair for an engine that takes weights of a format."""
    target = _model(names.model, format, names.original)
    offer, sampling = _offer_and_sampling(names.model, format)
    if names.draft:
        other = _model(names.draft, format, names.draft_original)
        return Deployment(target, other.drafts_as, other, settings, sampling)
    original = names.draft_original or offer.draft_original
    draft = _model(offer.draft, format, original) if offer.draft else None
    drafter = LOOKUP if offer.drafter == "none" else offer.drafter
    return Deployment(target, drafter, draft, settings, sampling)


def _offer_and_sampling(model: str, format: str) -> tuple[Offer, Mapping[str, float]]:
    """Look up how a model drafts, and the sampling that its makers recommend."""
    if expand_home(model).exists():
        inside = trial.footprint(model).drafting_layers > 0
        return Offer({}, "mtp-inside" if inside else "none"), {}
    entry = find(model.partition(":")[0])
    return _offer(entry, format), entry.sampling


def _model(name_or_path: str, format: str, original: str) -> ExportedModel:
    """Find a model: a file here, a name of the catalogue, or a source on a hub."""
    if expand_home(name_or_path).exists():
        return _file(name_or_path, format, original)
    name, _, weights = name_or_path.partition(":")
    if name in entries():
        return _listed(find(name), format, weights, original)
    return ExportedModel(name_or_path, source(name_or_path), original=original)


def _file(name: str, format: str, original: str) -> ExportedModel:
    path = expand_home(name).absolute()
    spec = taker(path).spec
    if format not in (ANY, spec.format):
        raise UsageError(f"{name} is {spec.kind}; that engine runs {format}")
    footprint = trial.footprint(path)
    # A head may have a smaller vocabulary of its own.
    vocabulary, drafts_as = 0 if footprint.drafter else footprint.vocabulary, footprint.drafter
    files, weights = LocalFiles(path), footprint.quantisation
    return ExportedModel(footprint.name, files, weights, original, vocabulary, drafts_as or "model")


def _listed(entry: Entry, format: str, weights: str, original: str) -> ExportedModel:
    """Find a model of the catalogue: here if it was pulled, else where it would come from."""
    offer = _offer(entry, format)
    weights_offered = offer.weights
    if weights:
        require_known(entry.name, weights, weights_offered)
    chosen = weights or next(iter(weights_offered))
    vocabulary = entry.shape.vocabulary if entry.shape else 0
    where: Source = weights_offered[chosen].source
    offers = entry.offers
    takers = [one.name for one in all_engines() if offers.get(one.spec.format) is offer]
    for pulled in store.find(f"{entry.name}:{chosen}", takers):
        where = LocalFiles(pulled.target.path)
    return ExportedModel(entry.name, where, chosen, original or entry.original, vocabulary)


def _offer(entry: Entry, format: str) -> Offer:
    if format == ANY:
        return next(iter(entry.offers.values()))
    if format not in entry.offers:
        listed = " and ".join(entry.offers)
        raise UsageError(f"{entry.name} is listed as {listed} only, and that engine runs {format}")
    return entry.offers[format]

"""A name or a source, resolved to files, repositories and an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import constants

from localspec.base.errors import PullError, require_known
from localspec.interfaces.backend_spec import RemoteModel
from localspec.running.memory.planner import Limits, current_machine
from localspec.running.models.catalogue import choose, entries, find, names, offer_for
from localspec.running.models.engines import AUTO, spec, specs, taker
from localspec.running.models.entry import Offer, Weights
from localspec.running.models.ollama_names import listed_name
from localspec.running.models.sources import Address, Hub, Package, Source, source
from localspec.running.pulling import address, hub, listing
from localspec.running.pulling.estimate import find_draft, fitting
from localspec.running.pulling.listing import Listing, Remote


@dataclass(frozen=True, slots=True)
class PullPart:
    """A model, or a drafter, to be pulled: its files on the hub, or where it is already."""

    source: Source
    listing: Listing | None = None
    files: tuple[Remote, ...] = ()
    address_bytes: int = 0  # of the file at an address; 0: not known

    @property
    def bytes(self) -> int:
        return self.address_bytes or sum(file.size for file in self.files)

    @property
    def missing(self) -> int:
        if isinstance(self.source, Address):
            return address.missing_bytes(self.source, self.address_bytes)
        return hub.missing(self.listing, self.files) if self.listing else 0

    @property
    def folder(self) -> Path | None:
        """The folder to download to; None for what is here."""
        if isinstance(self.source, Address):
            return address.download_folder()
        return Path(constants.HF_HUB_CACHE) if self.listing else None


@dataclass(frozen=True, slots=True)
class PullPlan:
    """A pair as it will be pulled."""

    name: str
    weights: str
    engine: str
    target: PullPart
    drafter: str = "none"
    draft: PullPart | None = None
    projector: PullPart | None = None
    blind: str = ""  # why there is no projector although the catalogue names one

    @property
    def parts(self) -> tuple[PullPart, ...]:
        return tuple(part for part in (self.target, self.draft, self.projector) if part)

    @property
    def missing(self) -> int:
        return sum(part.missing for part in self.parts)


def pull_plan(name_or_source: str, engine: str = AUTO, draft: str = "") -> PullPlan:
    """Resolve a name of the catalogue, or a source, to the files to pull.

    The drafter is the given one, else the one that the catalogue offers for the engine.
    """
    if name_or_source.startswith(("hf:", "https:", "http:")):
        return plan_of_source(name_or_source, engine, draft)
    name_or_source = listed_name(name_or_source)
    name, _, weights = name_or_source.partition(":")
    # A repository is no name, and the error is to show it whole.
    entry = find(name_or_source if "/" in name_or_source else name)
    engine_name = choose(entry, engine, tuple(specs()))
    weights = fitting(entry, engine_name, weights, current_machine(engine_name, Limits()))
    offer = offer_for(entry, engine_name)
    target = listed_part(offer.weights[weights], engine_name, weights)
    plan = PullPlan(name, weights, engine_name, target, *_drafter(offer, engine_name, draft))
    return with_projector(plan, offer)


def _drafter(offer: Offer, engine: str, draft: str) -> tuple[str, PullPart | None]:
    """Find what is to draft: the given one, else the one that is offered."""
    if draft:
        return "model", _named_draft(draft, engine)
    if offer.drafter == "model" and (listed_draft := find_draft(offer, engine)):
        _, _, draft_weights = offer.draft.partition(":")
        return "model", listed_part(listed_draft[1], engine, draft_weights)
    return offer.drafter, part(source(offer.draft), engine, "") if offer.draft else None


def with_projector(plan: PullPlan, offer: Offer) -> PullPlan:
    """Add the projector that an offer names; the model is pulled without one that is not there."""
    if not offer.projector:
        return plan
    try:
        return replace(plan, projector=part(source(offer.projector), plan.engine, ""))
    except PullError as error:
        return replace(plan, blind=str(error))


def plan_of_source(text: str, engine: str, draft: str) -> PullPlan:
    """Plan to pull a repository or an address, with the given draft or what lies beside it."""
    origin = source(text)
    if isinstance(origin, Hub):
        plan = plan_of_repository(origin, engine)
    else:
        assert isinstance(origin, Address)
        file = Path(origin.name)
        engine, name = taker(file, engine), new_name(file.stem.lower(), origin)
        plan = PullPlan(name, "as-given", engine, part(origin, engine, ""))
    return replace(plan, drafter="model", draft=_named_draft(draft, plan.engine)) if draft else plan


def new_name(name: str, origin: Source) -> str:
    """Return the name of a source; refuse one that an entry of the catalogue has."""
    if name in names():
        raise PullError(
            f"{name} is a name of the catalogue already, which {origin} would hide: give it a name "
            f"of its own by localspec add NAME --target '{origin}', and then pull that"
        )
    return name


def plan_of_repository(origin: Hub, engine: str) -> PullPlan:
    """Plan to pull the wanted file of a repository, and the drafter and projector beside it."""
    offered = hub.listing(origin)
    engine = engine if engine != AUTO else hub_taker(origin, offered)
    target = hub_part(origin, offered, engine, "")
    drafter = listing.drafter(offered, spec(engine))
    return PullPlan(
        new_name(origin.repository.rpartition("/")[2].lower(), origin),
        "as-given",
        engine,
        target,
        drafter.role if drafter else "none",
        _part_beside(origin, offered, drafter),
        _part_beside(origin, offered, listing.projector(offered, spec(engine))),
    )


def hub_taker(origin: Hub, offered: Listing) -> str:
    """Find the first engine that takes the wanted file of a repository, or any of its files."""
    for file in (origin.file, ""):
        for name, engine_spec in specs().items():
            if listing.fitting(offered.models(engine_spec), file):
                return name
    return next(iter(specs()))


def _part_beside(origin: Hub, offered: Listing, model: RemoteModel | None) -> PullPart | None:
    """Return what lies beside a model as a part to pull, if it is there whole."""
    if model is None or model.lacks:
        return None
    return PullPart(replace(origin, file=model.files[0]), offered, offered.remotes(model))


def _named_draft(draft: str, engine: str) -> PullPart:
    name, _, weights = draft.partition(":")
    entry = entries().get(name)
    if entry:
        offered = offer_for(entry, choose(entry, engine, ())).weights
        weights = weights or next(iter(offered))
        require_known(name, weights, offered)
        return listed_part(offered[weights], engine, weights)
    return part(source(draft), engine, "")


def listed_part(weights: Weights, engine: str, name: str) -> PullPart:
    """Find the catalogue's files; where it knows checksums, they must match."""
    if isinstance(weights.source, Package) and weights.source.find() is None:
        raise PullError(f"{weights.source.module} is not installed: {weights.install}")
    pull_part = part(weights.source, engine, name)
    sums = tuple(file.sum for file in pull_part.files if file.large)
    if weights.sums and sums != weights.sums:
        raise PullError(
            f"{pull_part.source} is not what was checked for the catalogue: its sums differ"
        )
    return pull_part


def part(origin: Source, engine: str, weights: str) -> PullPart:
    if isinstance(origin, Address):
        return PullPart(origin, address_bytes=address.total_bytes(origin))
    if not isinstance(origin, Hub):
        return PullPart(origin)
    return hub_part(origin, hub.listing(origin), engine, weights)


def hub_part(origin: Hub, offered: Listing, engine: str, weights: str) -> PullPart:
    model = listing.choose_model(offered, spec(engine), origin.file, weights)
    return PullPart(replace(origin, revision=offered.revision), offered, offered.remotes(model))

"""A name or a source, resolved to files, repositories and an engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from localspec.base.errors import PullError
from localspec.base.model_files import RemoteModel
from localspec.running.memory.planner import Limits
from localspec.running.models.catalogue import find, names
from localspec.running.models.engines import AUTO, Engine, candidates, taker
from localspec.running.models.entry import Offer, Weights
from localspec.running.models.ollama_names import listed_name
from localspec.running.models.sources import Address, Hub, Package, Source, source
from localspec.running.pulling import address, hub
from localspec.running.pulling.estimate import find_draft, fitted_offer
from localspec.running.pulling.listing import Listing
from localspec.running.pulling.pull_plan import PullPart, PullPlan


def pull_plan(name_or_source: str, backend: str = AUTO, draft: str = "") -> PullPlan:
    """Resolve a name of the catalogue, or a source, to the files to pull.

    The drafter is the given one, else the one that the catalogue offers for the engine.
    """
    if not name_or_source.startswith(("hf:", "https:", "http:")):
        return plan_of_name(listed_name(name_or_source), backend, draft)
    plan = plan_of_source(source(name_or_source), backend)
    own = part_of_draft(draft, plan.engine) if draft else None
    return replace(plan, drafter="model", draft=own) if own else plan


def plan_of_name(full_name: str, backend: str, draft: str) -> PullPlan:
    """Plan to pull an entry of the catalogue, with what it offers for the engine."""
    name, _, weights = full_name.partition(":")
    # A repository is no name, and the error is to show it whole.
    entry = find(full_name if "/" in full_name else name)
    engine, offer, weights, listed = fitted_offer(entry, backend, weights, Limits())
    target = listed_part(listed, engine, weights)
    drafter, draft = ("model", draft) if draft else (offer.drafter, offer.draft)
    draft_part = part_of_draft(draft, engine) if draft else None
    return with_projector(PullPlan(name, weights, engine, target, drafter, draft_part), offer)


def part_of_draft(draft: str, engine: Engine) -> PullPart:
    """Find the files of a drafter, which is a name of the catalogue or a source."""
    if listed := find_draft(draft, engine):
        return listed_part(listed.weights, engine, listed.name)
    return part(source(draft), engine)


def with_projector(plan: PullPlan, offer: Offer) -> PullPlan:
    """Add the projector that an offer names; the model is pulled without one that is not there."""
    if not offer.projector:
        return plan
    try:
        return replace(plan, projector=part(source(offer.projector), plan.engine))
    except PullError as error:
        return replace(plan, blind=str(error))


def plan_of_source(origin: Source, backend: str) -> PullPlan:
    """Plan to pull a file, and of a repository the drafter and the projector beside it."""
    if not isinstance(origin, Hub):
        assert isinstance(origin, Address)
        file = Path(origin.name)
        engine, name = taker(file, backend), new_name(file.stem.lower(), origin)
        return PullPlan(name, "as-given", engine, part(origin, engine))
    listing = hub.list_files(origin)
    engine = listing.taker(candidates(backend), origin.file)
    target, drafter = hub_part(origin, listing, engine), listing.drafter(engine)
    return PullPlan(
        new_name(origin.repository.rpartition("/")[2].lower(), origin),
        "as-given",
        engine,
        target,
        drafter.role if drafter else "none",
        part_beside(origin, listing, drafter),
        part_beside(origin, listing, listing.projector(engine)),
    )


def new_name(name: str, origin: Source) -> str:
    """Return the name of a source; refuse one that an entry of the catalogue has."""
    if name in names():
        raise PullError(
            f"{name} is a name of the catalogue already, which {origin} would hide: give it a name "
            f"of its own by localspec add NAME --target '{origin}', and then pull that"
        )
    return name


def part_beside(origin: Hub, listing: Listing, model: RemoteModel | None) -> PullPart | None:
    """Return what lies beside a model as a part to pull, if it is there whole."""
    if model is None or model.lacks:
        return None
    return PullPart(replace(origin, file=model.files[0]), listing, listing.remotes(model))


def listed_part(weights: Weights, engine: Engine, name: str) -> PullPart:
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


def part(origin: Source, engine: Engine, weights: str = "") -> PullPart:
    if isinstance(origin, Address):
        return PullPart(origin, address_bytes=address.total_bytes(origin))
    if not isinstance(origin, Hub):
        return PullPart(origin)
    return hub_part(origin, hub.list_files(origin), engine, weights)


def hub_part(origin: Hub, listing: Listing, engine: Engine, weights: str = "") -> PullPart:
    model = listing.choose(engine, origin.file, weights)
    return PullPart(replace(origin, revision=listing.revision), listing, listing.remotes(model))

"""Plans by the catalogue's sizes, before any file is here."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from localspec.base.errors import DoesNotFit, require_known
from localspec.interfaces.backend import CONTEXT, Estimate, Needs, Options
from localspec.running.memory import plan
from localspec.running.memory.machine import Machine, size
from localspec.running.memory.plan import Plan
from localspec.running.memory.plan_request import PlanRequest
from localspec.running.memory.planner import Limits, current_machine
from localspec.running.models.catalogue import choose, entries
from localspec.running.models.engines import Engine
from localspec.running.models.entry import Entry, Offer, Shape, Weights

KV_SHARES = {"q8_0": 17 / 32, "q4_0": 9 / 32, "f32": 2.0}  # of 16 bits, which are the rest at most
UNKNOWN_SHARE = 1 / 16  # of the weights, for a text of a model whose shape is not listed
BUFFER_BYTES = 256 << 20  # bytes of buffers, as long as nothing better is known


def fitting(entry: Entry, engine: Engine, weights: str, machine: Machine) -> str:
    """Return the requested weights, or choose the first that fit."""
    offered = entry.offers[engine.spec.format].weights
    if weights:
        require_known(entry.name, weights, offered)
        return weights
    for name in offered:
        with suppress(DoesNotFit):
            rough_plan(entry, engine, name, machine)
            return name
    least = min(offered.values(), key=lambda quantisation: quantisation.bytes)
    raise DoesNotFit(
        f"{entry.name} does not fit here: its smallest weights take {size(least.bytes)}, and there "
        f"is room for {size(machine.available)}; name the weights to pull it all the same, as "
        f"{entry.name}:{next(iter(offered))}"
    )


def fitted_offer(
    entry: Entry, backend: str, weights: str, limits: Limits
) -> tuple[Engine, Offer, str, Weights]:
    """Choose the engine, what is offered for it, and the requested weights or the first that fit.

    The weights come by their name, and as the catalogue has them.
    """
    engine = choose(entry, backend)
    offer = entry.offers[engine.spec.format]
    name = fitting(entry, engine, weights, current_machine(engine, limits))
    return engine, offer, name, offer.weights[name]


def rough_plan(
    entry: Entry,
    engine: Engine,
    weights: str,
    machine: Machine,
    options: Options | None = None,
    *,
    alone: bool = False,
) -> Plan:
    """Plan by the catalogue's sizes, before any file is here."""
    offer = entry.offers[engine.spec.format]
    require_known(entry.name, weights, offer.weights)
    draft = find_draft(offer.draft, engine) if offer.drafter == "model" and not alone else None
    options = options or Options()
    if offer.draft_bytes and not alone:
        options = replace(options, head=Path(offer.draft))
    request = PlanRequest(
        estimate_needs(offer.weights[weights], shape_of(entry, offer), offer),
        options,
        min(entry.context or CONTEXT, CONTEXT),
        estimate_needs(draft.weights, draft.entry.shape) if draft else None,
        replace(options, drafting=True, projector=None),
        projector=Path(offer.projector) if offer.projector else None,
    )
    return plan.plan(request, machine)


class ListedDraft(NamedTuple):
    """A draft model of the catalogue."""

    entry: Entry
    name: str  # of its weights
    weights: Weights


def find_draft(draft: str, engine: Engine) -> ListedDraft | None:
    """Find the draft model that a name of the catalogue stands for; None: it is no such name."""
    name, _, weights = draft.partition(":")
    entry = entries().get(name)
    if entry is None:
        return None
    offered = entry.offers[choose(entry, engine.name).spec.format].weights
    weights = weights or next(iter(offered))
    require_known(name, weights, offered)
    return ListedDraft(entry, weights, offered[weights])


def shape_of(entry: Entry, offer: Offer) -> Shape | None:
    """Count an MTP block among the layers: it has keys and values, too."""
    if entry.shape is None or offer.drafter != "mtp-inside":
        return entry.shape
    return replace(entry.shape, layers=entry.shape.layers + 1)


def size_of_drafter(offer: Offer, engine: Engine) -> int:
    """Return the bytes of a model's drafter; 0 if there is none or its size is unknown."""
    draft = find_draft(offer.draft, engine) if offer.drafter == "model" else None
    return draft.weights.bytes if draft else offer.draft_bytes


def estimate_needs(weights: Weights, shape: Shape | None, offer: Offer | None = None) -> Estimate:
    """Estimate the needs by published sizes; of an unknown shape, a share of the weights."""

    def needs(options: Options) -> Needs:
        cells, beside = options.context or CONTEXT, beside_weights(offer, options)
        if options.drafting:
            cells = min(cells, options.draft.context * options.slots)
        if shape is None:
            cache = int(weights.bytes * UNKNOWN_SHARE)
            return replace(beside, weights=weights.bytes, cache=cache, working=BUFFER_BYTES)
        logits = options.slots * (options.tentative + 1) * shape.vocabulary * 4
        kinds = options.kv_type.split(",")
        share = sum(KV_SHARES.get(kind, 1.0) for kind in kinds) / len(kinds)
        return replace(
            beside,
            weights=weights.bytes,
            cache=int(cells * shape.token_bytes * share),
            working=BUFFER_BYTES + logits,
            layers=shape.layers,
        )

    return needs


def beside_weights(offer: Offer | None, options: Options) -> Needs:
    """Count the head and the projector of an offer, where options have them."""
    head = offer.draft_bytes if offer and options.head else 0
    projector = offer.projector_bytes + BUFFER_BYTES if offer and options.projector else 0
    return Needs(0, 0, 0, head=head, projector=projector)

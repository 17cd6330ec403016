"""A model's place in the machine: its memory by the plan, and what is known about its speed."""

from __future__ import annotations

from dataclasses import asdict

from localspec.memory.machine import Pool
from localspec.memory.plan import Plan
from localspec.runtime import pair_history
from localspec.server.llamacpp.props import device
from localspec.server.offers import ServedOffer
from localspec.server.served import Served

Object = dict[str, object]


def machine(offer: ServedOffer, served: Served | None) -> Object:
    """Describe a model's memory and pair; slow, so not on the event loop."""
    facts = served.resident.known if served else None
    pairing = facts.pairing if facts else None
    return {
        "model": offer.name,
        "loaded": served is not None,
        "proposers": list(facts.proposers or ()) if facts else [],
        "plan": planned(facts.plan) if facts and facts.plan else None,
        "devices": [device(pool) for pool in served.resident.devices()] if served else [],
        "pairing": pairing.share if pairing else None,
        "advice": list(facts.advice) if facts else [],
        "falls": pair_history.fallen(),
        "corpus": [
            {"about": str(source), **asdict(source)}
            for source in (facts.corpus.facts() if facts and facts.corpus else ())
        ],
    }


def planned(plan: Plan) -> Object:
    return {
        "pools": [pool_of(plan, pool) for pool in plan.pools],
        "concessions": [{"what": gone.what, "why": gone.why} for gone in plan.concessions],
    }


def pool_of(plan: Plan, pool: Pool) -> Object:
    items = [
        {"what": item.what, "bytes": item.bytes} for item in plan.items if item.pool == pool.name
    ]
    return {"name": pool.name, "total": pool.total, "items": items}

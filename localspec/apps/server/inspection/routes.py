"""The paths below /localspec."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from importlib.metadata import version

from fastapi import APIRouter, Depends

from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.inspection.bench_run import BenchRun
from localspec.apps.server.llamacpp.props import device
from localspec.apps.server.monitoring.log_lines import RecentLines
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.reading import BoundedRoute
from localspec.apps.server.served import Served
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.table import PARAMETERS, Parameter
from localspec.running.memory.machine import Pool
from localspec.running.memory.plan import Plan
from localspec.running.runtime import pair_history

Object = dict[str, object]


class BenchRequest(RequestPart):
    model: str = ""


@dataclass(frozen=True, slots=True)
class Inspected:
    """Holds what is shown beside the models."""

    handler: RequestHandler
    lines: RecentLines
    bench: BenchRun


def inspection(inspected: Inspected) -> APIRouter:
    """Show the server; what is not every client's business is by the rules of managing."""
    routes = APIRouter(route_class=BoundedRoute, prefix="/localspec", tags=["LocalSpec"])
    host, manager = inspected.handler.host, inspected.handler.manager
    allowed = [Depends(manager)]

    @routes.get("/about")
    async def show_about() -> Object:
        """Tell what clients may do here, and the parameters of sampling with their bounds."""
        bench = any(offer.bench for offer in host.offers.values())
        return about(manage=manager.allowed, bench=bench)

    @routes.get("/machine")
    async def show_machine(model: str = "") -> Object:
        """Show a model's memory by its plan, and what fell since versions changed."""
        offer = host.offers.meant_by(model)
        return await asyncio.to_thread(machine, offer, host.loaded.get(offer.name))

    @routes.get("/catalogue", dependencies=allowed)
    async def show_catalogue() -> Object:
        """List the models that are here, and those to pull."""
        return {"models": await asyncio.to_thread(inspected.handler.downloads.library.everything)}

    @routes.get("/log", dependencies=allowed)
    async def show_log(after: int = 0) -> Object:
        """Return the last lines of the log, behind a number."""
        return inspected.lines.after(after)

    @routes.post("/bench", dependencies=allowed)
    async def begin_bench(body: BenchRequest) -> Object:
        """Measure a model by `localspec bench`; it leaves memory meanwhile."""
        inspected.bench.begin(body.model)
        return inspected.bench.state.described()

    @routes.get("/bench", dependencies=allowed)
    async def show_bench() -> Object:
        """Report how far the measurement is, or what the last one found."""
        return inspected.bench.state.described()

    return routes


def about(*, manage: bool, bench: bool) -> Object:
    """Describe what a client may do here, and the parameters that texts are sampled by."""
    return {
        "version": version("localspec"),
        "manage": manage,
        "bench": bench,
        "parameters": [described(parameter) for parameter in PARAMETERS],
        "lists": [{"name": texts.name, "about": texts.about} for texts in LISTS],
    }


def described(parameter: Parameter) -> Object:
    """Describe a number of sampling, with the bounds for people, by its name in llama.cpp."""
    low, high = parameter.sensible or parameter.bounds
    return {
        "name": parameter.names[-1],
        "about": parameter.about,
        "low": low,
        "high": high,
        "whole": parameter.whole,
    }


def machine(offer: ServedOffer, served: Served | None) -> Object:
    """Describe a model's memory and pair; slow, so not on the event loop."""
    facts = served.resident.known if served else None
    pairing = facts.pairing if facts else None
    return {
        "model": offer.name,
        "loaded": served is not None,
        "features": list(facts.target.engine.build.features) if facts and facts.target else [],
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

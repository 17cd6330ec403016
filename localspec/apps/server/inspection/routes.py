"""The paths below /localspec."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from importlib.metadata import version

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.inspection.bench_run import BenchRun
from localspec.apps.server.llamacpp.props import device
from localspec.apps.server.monitoring.log_lines import RecentLines
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.reading import body_route, read_query
from localspec.apps.server.served import Served
from localspec.base.system.energy import coarse_meter
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameter import Parameter
from localspec.core.sampling.parameters import PARAMETERS
from localspec.running.memory.machine import Pool
from localspec.running.memory.plan import Plan
from localspec.running.runtime import pair_history

Object = dict[str, object]


class BenchRequest(RequestPart):
    model: str = ""


class LogQuery(BaseModel):
    after: int = 0


def inspection(handler: RequestHandler, lines: RecentLines, bench: BenchRun) -> list[BaseRoute]:
    """Show the server; what is not every client's business is by the rules of managing."""
    host, manager = handler.host, handler.manager

    async def show_about(_: Request) -> Response:
        """Return what clients may do here, and the parameters of sampling with their bounds."""
        measures = any(offer.bench for offer in host.offers.values())
        return JSONResponse(about(manage=manager.allowed, bench=measures))

    async def show_machine(request: Request) -> Response:
        """Show a model's memory by its plan, and what fell since versions changed."""
        offer = host.offers.meant_by(request.query_params.get("model", ""))
        described = await asyncio.to_thread(machine, offer, host.loaded.get(offer.name))
        return JSONResponse(described)

    async def show_catalogue(request: Request) -> Response:
        """List the models that are here, and those to pull."""
        await manager(request)
        models = await asyncio.to_thread(handler.downloads.library.everything)
        return JSONResponse({"models": models})

    async def show_log(request: Request) -> Response:
        """Return the last lines of the log, after a number."""
        await manager(request)
        return JSONResponse(lines.after(read_query(request, LogQuery).after))

    async def begin_bench(request: Request, body: BenchRequest) -> Response:
        """Measure a model by `localspec bench`; it leaves memory meanwhile."""
        await manager(request)
        bench.begin(body.model)
        return JSONResponse(bench.state.described())

    async def show_bench(request: Request) -> Response:
        """Report how far the measurement is, or what the last one found."""
        await manager(request)
        return JSONResponse(bench.state.described())

    return [
        Route("/localspec/about", show_about),
        Route("/localspec/machine", show_machine),
        Route("/localspec/catalogue", show_catalogue),
        Route("/localspec/log", show_log),
        Route("/localspec/bench", show_bench),
        body_route("/localspec/bench", BenchRequest, begin_bench),
    ]


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
    facts = served.resident.facts if served else None
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
        "energy": coarse_meter().reading(),
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

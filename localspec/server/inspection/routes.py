"""The paths below /localspec."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import APIRouter, Depends

from localspec.server.handler import RequestHandler
from localspec.server.inspection.about import about
from localspec.server.inspection.bench_run import BenchRun
from localspec.server.inspection.machine import machine
from localspec.server.inspection.recent_lines import RecentLines
from localspec.server.requests.leniency import RequestPart
from localspec.server.requests.reading import BoundedRoute

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

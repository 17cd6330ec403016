"""The state of the server: health and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from localspec.server.model_host import ModelHost
from localspec.server.monitoring.metrics import Metrics


def status(host: ModelHost, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["Status"])

    @routes.get("/v1/health", include_in_schema=False)
    @routes.get("/health")
    async def health() -> dict[str, object]:
        """Report that requests are taken, and how many there are."""
        served = list(host.loaded.values())
        return {
            "status": "ok",
            "loaded": sorted(host.loaded),
            "slots": sum(model.resident.slots for model in served),
            "busy": sum(model.busy for model in served),
            "waiting": sum(model.waiting for model in served),
        }

    @routes.get("/metrics")
    async def figures() -> Response:
        """Return the metrics for Prometheus."""
        text = await asyncio.to_thread(metrics.exposition)  # devices take their time to answer
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return routes

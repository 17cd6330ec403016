"""The paths of llama.cpp's server by which models are loaded and unloaded."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import APIRouter, Depends
from starlette.responses import Response, StreamingResponse

from localspec.server.handler import RequestHandler
from localspec.server.replies.frame import event
from localspec.server.replies.streaming import KEEP_ALIVE, SSE
from localspec.server.requests.fields import Strict

Object = dict[str, object]


class ModelNamed(Strict):
    model: str


def managing(routes: APIRouter, desk: RequestHandler) -> None:
    allowed = [Depends(desk.manager)]

    @routes.post("/models/load", dependencies=allowed)
    async def load(body: ModelNamed) -> Object:
        """Begin to load a model; `/models/sse` tells when it is loaded."""
        desk.house.begin_loading(body.model)
        return {"success": True}

    @routes.post("/models/unload", dependencies=allowed)
    async def unload(body: ModelNamed) -> Object:
        """Free a model's memory, at once or when its requests have ended."""
        return {"success": True, "requests": await desk.house.unload(body.model)}

    @routes.get("/models/sse")
    async def follow() -> Response:
        """What becomes of the models, for as long as a client listens."""
        desk.house.events.require_room()

        async def told() -> AsyncIterator[bytes]:
            async for change in desk.house.events.listen():
                yield KEEP_ALIVE if change is None else event(change)

        return StreamingResponse(told(), media_type=SSE, headers={"Cache-Control": "no-store"})

"""The paths of LM Studio's API."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from localspec.server.api import Api
from localspec.server.faults import openai_error
from localspec.server.handler import ApiRequest, RequestHandler
from localspec.server.lmstudio.chat import LmStudioAnswer, LmStudioChatRequest, stream_error
from localspec.server.lmstudio.downloading import downloading
from localspec.server.lmstudio.listing import TYPES_V1, config, model_v0, model_v1
from localspec.server.model_facts import ModelFacts
from localspec.server.offers import ServedOffer
from localspec.server.requests.reading import BoundedRoute
from localspec.server.served import Served

Object = dict[str, object]
Describe = Callable[[ServedOffer, Served | None, ModelFacts], Object]


class LoadRequest(BaseModel):
    """A request to load; its options are ignored, since the server got them at its start."""

    model: str


class UnloadRequest(BaseModel):
    instance_id: str


def lmstudio(handler: RequestHandler) -> APIRouter:
    routes = APIRouter(route_class=BoundedRoute, tags=["LM Studio"])
    host, allowed = handler.host, [Depends(handler.manager)]
    downloading(routes, handler)

    async def describe(offer: ServedOffer, name: str, version: Describe) -> Object:
        served, facts = host.loaded.get(offer.name), await host.facts(offer.name)
        return version(replace(offer, name=name), served, facts)

    async def descriptions(version: Describe) -> list[Object]:
        named = [(offer, name) for offer in host.offers.values() for name in offer.names]
        return [await describe(offer, name, version) for offer, name in named]

    @routes.get("/api/v0/models")
    async def models() -> Object:
        """List the models."""
        return {"object": "list", "data": await descriptions(model_v0)}

    @routes.get("/api/v0/models/{name:path}")
    async def model(name: str) -> Object:
        offer = host.offers.meant_by(name)
        return await describe(offer, name if name in offer.names else offer.name, model_v0)

    @routes.post("/api/v1/chat")
    async def chat(request: Request, body: LmStudioChatRequest) -> Response:
        """Answer one text."""
        return await handler.serve(request, ApiRequest(body, LmStudioAnswer, stream_error))

    @routes.get("/api/v1/models")
    async def keys() -> Object:
        """List the models, with those of them that are loaded."""
        return {"models": await descriptions(model_v1)}

    @routes.post("/api/v1/models/load", dependencies=allowed)
    async def load(body: LoadRequest) -> Object:
        """Load a model; the answer comes when it is loaded."""
        begun = time.perf_counter()
        await handler.downloads.look_for(body.model)
        async with host.lease(body.model, kind=None) as served:
            return loaded(served) | {"load_time_seconds": time.perf_counter() - begun}

    @routes.post("/api/v1/models/unload", dependencies=allowed)
    async def unload(body: UnloadRequest) -> Object:
        """Free a model's memory, at once or when its requests have ended."""
        await host.unload(host.offers.meant_by(body.instance_id).name)
        return {"instance_id": body.instance_id}

    return routes


def loaded(served: Served) -> Object:
    """Describe a model that was loaded on request."""
    names = dict.fromkeys(("instance_id", "model_instance_id"), served.name)
    kind = TYPES_V1[served.offer.kind]
    return {"type": kind, "status": "loaded", "config": config(served), **names}


LM_STUDIO = Api(("/api/v0/", "/api/v1/"), lmstudio, openai_error)

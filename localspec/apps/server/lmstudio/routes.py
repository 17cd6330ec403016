"""The paths of LM Studio's API."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from localspec.apps.server.api import Api
from localspec.apps.server.faults import openai_error
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.lmstudio.chat import LmStudioAnswer, LmStudioChatRequest, stream_error
from localspec.apps.server.lmstudio.downloading import downloading
from localspec.apps.server.model_facts import ModelFacts
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.requests.reading import BoundedRoute
from localspec.apps.server.served import Served, media_of
from localspec.interfaces.vector_model import Kind

FORMATS = ("gguf", "mlx")  # that its clients know
PUBLISHER = "localspec"
TYPES: Mapping[Kind, str] = {"text": "llm", "embedding": "embeddings", "reranking": "reranking"}
TYPES_V1: Mapping[Kind, str] = {**TYPES, "embedding": "embedding"}

Object = dict[str, object]
Describe = Callable[[ServedOffer, Served | None, ModelFacts], Object]


def model_v0(offer: ServedOffer, served: Served | None, facts: ModelFacts) -> Object:
    """Describe a model as the paths of version 0 do."""
    fields: Object = {
        "id": offer.name,
        "object": "model",
        "type": "vlm" if "image" in media_of(offer, served) else TYPES[offer.kind],
        "publisher": PUBLISHER,
        "arch": offer.family,
        "compatibility_type": offer.format,
        "quantization": offer.quantisation,
        "state": "loaded" if served else "not-loaded",
        "max_context_length": trained_context(offer),
        "capabilities": ["tool_use"] if facts.calls else [],
    }
    return fields | ({"loaded_context_length": served.resident.context} if served else {})


def model_v1(offer: ServedOffer, served: Served | None, facts: ModelFacts) -> Object:
    """Describe a model as the paths of version 1 do."""
    return {
        "type": TYPES_V1[offer.kind],
        "publisher": PUBLISHER,
        "key": offer.name,
        "display_name": offer.name,
        "architecture": offer.family,
        "quantization": {"name": offer.quantisation, "bits_per_weight": None},
        "size_bytes": offer.bytes,
        "params_string": offer.parameters or None,
        "loaded_instances": [{"id": served.name, "config": config(served)}] if served else [],
        "max_context_length": trained_context(offer),
        "format": offer.format if offer.format in FORMATS else None,
        "capabilities": {
            "vision": "image" in media_of(offer, served),
            "trained_for_tool_use": facts.calls,
        },
        "description": None,
    }


def config(served: Served) -> Object:
    return {"context_length": served.resident.context}


def trained_context(offer: ServedOffer) -> int:
    """Return the trained context if the files have it, else the served one."""
    return offer.footprint.context if offer.footprint else offer.context


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

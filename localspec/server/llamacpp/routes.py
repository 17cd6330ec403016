"""The paths of llama.cpp's server."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.metadata import version

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from localspec.decoding.growing_text import sendable
from localspec.server.handler import ApiRequest, RequestHandler
from localspec.server.llamacpp.completion import Completion
from localspec.server.llamacpp.completion_request import CompletionRequest, InfillRequest
from localspec.server.llamacpp.tokens import DetokenizeRequest, TokenizeRequest
from localspec.server.model_host import Served
from localspec.server.replies.frame import event
from localspec.server.requests.chat_request import ChatRequest

Object = dict[str, object]


def llamacpp(desk: RequestHandler) -> APIRouter:
    routes = APIRouter(tags=["llama.cpp"])
    asking(routes, desk)
    telling(routes, desk)
    return routes


def asking(routes: APIRouter, desk: RequestHandler) -> None:
    async def answered(request: Request, body: CompletionRequest | InfillRequest) -> Response:
        errand = ApiRequest(
            body.model,
            body.prepared,
            partial(Completion.of, body),
            lambda fault: event(fault.openai()),
            stream=body.stream,
        )
        return await desk.serve(request, errand)

    @routes.post("/completions", include_in_schema=False)
    @routes.post("/completion")
    async def completion(request: Request, body: CompletionRequest) -> Response:
        """Go on with a text."""
        return await answered(request, body)

    @routes.post("/infill")
    async def infill(request: Request, body: InfillRequest) -> Response:
        """Fill in what belongs between two texts."""
        return await answered(request, body)


def telling(routes: APIRouter, desk: RequestHandler) -> None:
    @routes.post("/tokenize")
    async def tokenize(body: TokenizeRequest) -> Object:
        async with desk.house.lease(body.model) as served:
            return await asyncio.to_thread(body.answer, served.runtime)

    @routes.post("/detokenize")
    async def detokenize(body: DetokenizeRequest) -> Object:
        async with desk.house.lease(body.model) as served:
            return await asyncio.to_thread(body.answer, served.runtime)

    @routes.post("/apply-template")
    async def apply_template(body: ChatRequest) -> Object:
        """A conversation as its model will read it."""
        async with desk.house.lease(body.model) as served:
            return await asyncio.to_thread(rendered, body, served)

    @routes.get("/props")
    async def props(model: str = "") -> Object:
        async with desk.house.lease(model) as served:
            return properties(served)

    @routes.get("/slots")
    async def slots(model: str = "") -> list[Object]:
        async with desk.house.lease(model) as served:
            busy, runtime = served.users - 1, served.runtime  # this request takes no slot
            return [
                {"id": at, "n_ctx": runtime.context, "is_processing": at < busy}
                for at in range(runtime.slots)
            ]


def rendered(body: ChatRequest, served: Served) -> Object:
    conversation = body.conversation()
    offered = conversation.offered
    found = served.runtime.render(conversation.messages, offered, conversation.extra)
    return {"prompt": sendable(found)}


def properties(served: Served) -> Object:
    runtime, usual = served.runtime, served.offer.usual
    drawn = {
        "temperature": usual.temperature,
        "top_k": usual.top_k,
        "top_p": usual.top_p,
        "min_p": usual.min_p,
    }
    return {
        "default_generation_settings": {"n_ctx": runtime.context, "params": drawn},
        "total_slots": runtime.slots,
        "model_alias": served.name,
        "chat_template": runtime.tokenizer.chat_template or "",
        "modalities": {"vision": False, "audio": False},
        "build_info": f"localspec {version('localspec')}",
    }

"""The paths of llama.cpp's server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from localspec.apps.server.api import Api
from localspec.apps.server.faults import Fault, Refused, openai_error, overloaded
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.llamacpp.completion import Completion
from localspec.apps.server.llamacpp.completion_request import InfillRequest, LlamaCompletionRequest
from localspec.apps.server.llamacpp.managing import managing
from localspec.apps.server.llamacpp.props import properties, slots_of
from localspec.apps.server.llamacpp.tokens import DetokenizeRequest, TokenizeRequest
from localspec.apps.server.replies.frame import event
from localspec.apps.server.requests.chat_request import ChatRequest
from localspec.apps.server.requests.completion_prompts import count as prompts_in
from localspec.apps.server.requests.reading import BoundedRoute
from localspec.apps.server.served import Served
from localspec.core.decoding.growing_text import sendable
from localspec.interfaces.media import Medium
from localspec.running.runtime.runtime import Runtime

Object = dict[str, object]


def llamacpp(handler: RequestHandler) -> APIRouter:
    routes = APIRouter(route_class=BoundedRoute, tags=["llama.cpp"])
    asking(routes, handler)
    reading(routes, handler)
    describing(routes, handler)
    managing(routes, handler)
    return routes


def asking(routes: APIRouter, handler: RequestHandler) -> None:
    async def answered(
        request: Request,
        body: LlamaCompletionRequest | InfillRequest,
        prompts: int = 1,
        copies: int = 1,
    ) -> Response:
        api_request = ApiRequest(
            body,
            partial(Completion.of, body),
            lambda fault: event(openai_error(fault)),
            prompts=prompts,
            copies=copies,
        )
        return await handler.serve(request, api_request)

    @routes.post("/completions", include_in_schema=False)
    @routes.post("/completion")
    async def completion(request: Request, body: LlamaCompletionRequest) -> Response:
        """Continue a text."""
        return await answered(request, body, prompts_in(body.prompt, body.copies), body.copies)

    @routes.post("/infill")
    async def infill(request: Request, body: InfillRequest) -> Response:
        """Fill in what belongs between two texts."""
        return await answered(request, body)


def reading(routes: APIRouter, handler: RequestHandler) -> None:
    """Add the paths that tokenise, render and count texts."""

    async def answered(
        request: Request, model: str, answer: Callable[[Runtime], bytes]
    ) -> Response:
        async with handler.host.lease(model) as served:
            written = await handler.run(request, partial(answer, served.runtime))
            return Response(written, media_type="application/json")

    @routes.post("/tokenize")
    async def tokenize(request: Request, body: TokenizeRequest) -> Response:
        """List the tokens of a text, or of a conversation as its model will read it."""
        if body.chat:
            tokens = await handler.prompt_tokens(request, body.chat)
            return await answered(request, body.chat.model, partial(body.answer, prompt=tokens))
        await handler.report_ignored(request, body)
        return await answered(request, body.model, body.answer)

    @routes.post("/detokenize")
    async def detokenize(request: Request, body: DetokenizeRequest) -> Response:
        await handler.report_ignored(request, body)
        return await answered(request, body.model, body.answer)

    @routes.post("/apply-template")
    async def apply_template(request: Request, body: ChatRequest) -> Object:
        """Render a conversation as its model will read it."""
        await handler.report_ignored(request, body)
        media = await handler.take_media(request, body)
        async with handler.host.lease(body.model) as served:
            return await handler.run(request, partial(render, body, served, media))

    @routes.post("/v1/chat/completions/input_tokens")
    async def count(request: Request, body: ChatRequest) -> Object:
        """Count the tokens of a conversation without answering it."""
        count = await handler.count_tokens(request, body)
        return {"object": "response.input_tokens", "input_tokens": count}


def describing(routes: APIRouter, handler: RequestHandler) -> None:
    """Add the paths that describe the server."""

    @routes.get("/lora-adapters")
    async def adapters(model: str = "") -> list[Object]:
        """List the adapters that requests can scale, with the scales of those that name none."""
        return handler.host.offers.meant_by(model).adapters.listed()

    @routes.get("/props")
    async def props(model: str = "") -> Object:
        offer = handler.host.offers.meant_by(model)
        facts = await handler.host.facts(offer.name)
        served = handler.host.loaded.get(offer.name)
        answer = partial(properties, offer, served, facts, page=handler.page)
        return await asyncio.to_thread(answer)  # devices take their time

    @routes.post("/props", include_in_schema=False)
    async def change() -> None:
        raise Refused(Fault(501, "properties of this server do not change while it runs"))

    @routes.get("/tokenizer_info")
    async def tokenizer_info(model: str = "") -> Object:
        """Name the tokens that begin and end texts, as vLLM does."""
        offer = handler.host.offers.meant_by(model)
        facts = await handler.host.facts(offer.name)
        return {"bos_token": facts.bos, "eos_token": facts.eos, "chat_template": facts.template}

    @routes.get("/slots")
    async def slots(model: str = "", fail_on_no_slot: bool = False) -> list[Object]:
        offer = handler.host.offers.meant_by(model)
        slots = slots_of(offer, handler.host.loaded.get(offer.name))
        if fail_on_no_slot and all(slot["is_processing"] for slot in slots):
            raise overloaded(f"all {len(slots)} slots are busy")
        return slots


def render(body: ChatRequest, served: Served, media: Sequence[Medium]) -> Object:
    return {"prompt": sendable(body.rendered(served, media))}


def error_body(fault: Fault) -> Object:
    error = {"message": fault.message, "type": fault.kind, "param": fault.param}
    return {"error": {**error, "code": fault.code or fault.status}}


LLAMA_CPP = Api(("",), llamacpp, error_body)  # and of all paths that are no other API's

"""The paths of llama.cpp's server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.api import Api
from localspec.apps.server.faults import Fault, Refused, openai_error, overloaded
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.llamacpp.completion import Completion
from localspec.apps.server.llamacpp.completion_request import InfillRequest, LlamaCompletionRequest
from localspec.apps.server.llamacpp.managing import managing
from localspec.apps.server.llamacpp.props import properties, slots_of
from localspec.apps.server.llamacpp.tokens import DetokenizeRequest, TokenizeRequest
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.replies.frame import event
from localspec.apps.server.requests.chat_request import ChatRequest
from localspec.apps.server.requests.completion_prompts import count as prompts_in
from localspec.apps.server.requests.reading import body_route, read_query
from localspec.apps.server.served import Served
from localspec.core.decoding.growing_text import sendable
from localspec.interfaces.media import Medium
from localspec.running.runtime.runtime import Runtime

Object = dict[str, object]


class SlotsQuery(BaseModel):
    fail_on_no_slot: bool = False


def llamacpp(handler: RequestHandler) -> list[BaseRoute]:
    return [*asking(handler), *reading(handler), *describing(handler), *managing(handler)]


def asking(handler: RequestHandler) -> list[BaseRoute]:
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

    async def completion(request: Request, body: LlamaCompletionRequest) -> Response:
        """Continue a text."""
        return await answered(request, body, prompts_in(body.prompt, body.copies), body.copies)

    async def infill(request: Request, body: InfillRequest) -> Response:
        """Fill in what belongs between two texts."""
        return await answered(request, body)

    return [
        body_route("/completion", LlamaCompletionRequest, completion),
        body_route("/completions", LlamaCompletionRequest, completion),
        body_route("/infill", InfillRequest, infill),
    ]


def reading(handler: RequestHandler) -> list[BaseRoute]:
    """Return the paths that tokenise, render and count texts."""

    async def answered(
        request: Request, model: str, answer: Callable[[Runtime], bytes]
    ) -> Response:
        async with handler.host.lease(model) as served:
            written = await handler.run(request, partial(answer, served.runtime))
            return Response(written, media_type="application/json")

    async def tokenize(request: Request, body: TokenizeRequest) -> Response:
        """List the tokens of a text, or of a conversation as its model will read it."""
        if body.chat:
            tokens = await handler.prompt_tokens(request, body.chat)
            return await answered(request, body.chat.model, partial(body.answer, prompt=tokens))
        await handler.report_ignored(request, body)
        return await answered(request, body.model, body.answer)

    async def detokenize(request: Request, body: DetokenizeRequest) -> Response:
        await handler.report_ignored(request, body)
        return await answered(request, body.model, body.answer)

    async def apply_template(request: Request, body: ChatRequest) -> Response:
        """Render a conversation as its model will read it."""
        await handler.report_ignored(request, body)
        media = await handler.take_media(request, body)
        async with handler.host.lease(body.model) as served:
            rendered = await handler.run(request, partial(render, body, served, media))
        return JSONResponse(rendered)

    async def count(request: Request, body: ChatRequest) -> Response:
        """Count the tokens of a conversation without answering it."""
        count = await handler.count_tokens(request, body)
        return JSONResponse({"object": "response.input_tokens", "input_tokens": count})

    return [
        body_route("/tokenize", TokenizeRequest, tokenize),
        body_route("/detokenize", DetokenizeRequest, detokenize),
        body_route("/apply-template", ChatRequest, apply_template),
        body_route("/v1/chat/completions/input_tokens", ChatRequest, count),
    ]


def describing(handler: RequestHandler) -> list[BaseRoute]:
    """Return the paths that describe the server."""

    def meant(request: Request) -> ServedOffer:
        return handler.host.offers.meant_by(request.query_params.get("model", ""))

    async def adapters(request: Request) -> Response:
        """List the adapters that requests can scale, with the scales of those that name none."""
        return JSONResponse(meant(request).adapters.listed())

    async def props(request: Request) -> Response:
        offer = meant(request)
        facts = await handler.host.facts(offer.name)
        served = handler.host.loaded.get(offer.name)
        answer = partial(properties, offer, served, facts, page=handler.policy.page)
        return JSONResponse(await asyncio.to_thread(answer))  # devices take their time

    async def change(_: Request) -> Response:
        raise Refused(Fault(501, "properties of this server do not change while it runs"))

    async def tokenizer_info(request: Request) -> Response:
        """Name the tokens that begin and end texts, as vLLM does."""
        facts = await handler.host.facts(meant(request).name)
        named = {"bos_token": facts.bos, "eos_token": facts.eos, "chat_template": facts.template}
        return JSONResponse(named)

    async def slots(request: Request) -> Response:
        query, offer = read_query(request, SlotsQuery), meant(request)
        slots = slots_of(offer, handler.host.loaded.get(offer.name))
        if query.fail_on_no_slot and all(slot["is_processing"] for slot in slots):
            raise overloaded(f"all {len(slots)} slots are busy")
        return JSONResponse(slots)

    return [
        Route("/lora-adapters", adapters),
        Route("/props", props),
        Route("/props", change, methods=["POST"]),
        Route("/tokenizer_info", tokenizer_info),
        Route("/slots", slots),
    ]


def render(body: ChatRequest, served: Served, media: Sequence[Medium]) -> Object:
    return {"prompt": sendable(body.rendered(served, media))}


def error_body(fault: Fault) -> Object:
    error = {"message": fault.message, "type": fault.kind, "param": fault.param}
    return {"error": {**error, "code": fault.code or fault.status}}


LLAMA_CPP = Api(llamacpp, ("",), error_body)  # and of all paths that are no other API's

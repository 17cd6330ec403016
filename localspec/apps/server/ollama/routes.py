"""The paths of Ollama's API."""

from __future__ import annotations

import time
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.api import Api
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.ollama.answer import (
    Kind,
    OllamaAnswer,
    OllamaFormat,
    error_body,
    line,
    stream_error,
)
from localspec.apps.server.ollama.listing import model_details, running, tags
from localspec.apps.server.ollama.managing import NamedModel, managing
from localspec.apps.server.ollama.request import GenerateRequest, OllamaChatRequest
from localspec.apps.server.replies.streaming import LINES
from localspec.apps.server.requests.reading import body_route

VERSION = "0.12.0"  # of Ollama, whose API this is: editors want one that is not too old


class ShowRequest(NamedModel):
    verbose: bool = False  # harmless: there is no more to report


def ollama(handler: RequestHandler) -> list[BaseRoute]:
    return [*asking(handler), *listing(handler), *managing(handler)]


def asking(handler: RequestHandler) -> list[BaseRoute]:
    async def answered(
        request: Request, body: OllamaChatRequest | GenerateRequest, kind: Kind
    ) -> Response:
        begun = time.perf_counter()
        reply_format = OllamaFormat(body.model, kind)
        if body.loads:
            await handler.report_ignored(request, body, ignored_context(handler.host, body))
            if body.unloads:
                await handler.manager(request)
                await handler.host.unload(handler.host.offers.meant_by(body.model).name)
                return Response(line(reply_format.loaded("unload")), media_type=LINES)
            await handler.host.preload(body.model)
            handler.keep(request, body.model, body.keep_alive)
            return Response(line(reply_format.loaded()), media_type=LINES)
        handler.keep(request, body.model, body.keep_alive)
        api_request = ApiRequest(
            body,
            partial(OllamaAnswer, reply_format, begun),
            stream_error,
            media_type=LINES,
            also_ignored=ignored_context(handler.host, body),
        )
        return await handler.serve(request, api_request)

    async def chat(request: Request, body: OllamaChatRequest) -> Response:
        """Answer a conversation; without messages, load the model."""
        return await answered(request, body, "chat")

    async def generate(request: Request, body: GenerateRequest) -> Response:
        """Answer a prompt, or continue it; without one, load the model."""
        return await answered(request, body, "generate")

    return [
        body_route("/api/chat", OllamaChatRequest, chat),
        body_route("/api/generate", GenerateRequest, generate),
    ]


def ignored_context(host: ModelHost, body: OllamaChatRequest | GenerateRequest) -> list[str]:
    """List num_ctx where it asks for more context than the model was loaded with."""
    offer = host.offers.answering(body.model)
    served = host.loaded.get(offer.name)
    context = served.runtime.context if served else offer.context
    return ["options.num_ctx"] if body.options.num_ctx > context else []


def listing(handler: RequestHandler) -> list[BaseRoute]:
    async def greeting(_: Request) -> Response:
        return PlainTextResponse("Ollama is running")  # clients look for these words

    async def version(_: Request) -> Response:
        return JSONResponse({"version": VERSION})

    async def models(_: Request) -> Response:
        """List the models."""
        return JSONResponse(tags(handler.host))

    async def loaded(_: Request) -> Response:
        return JSONResponse(running(handler.host))

    async def show(_: Request, body: ShowRequest) -> Response:
        offer = handler.host.offers.meant_by(body.required_name)
        facts = await handler.host.facts(offer.name)
        return JSONResponse(model_details(offer, handler.host.loaded.get(offer.name), facts))

    return [
        Route("/", greeting),
        Route("/api/version", version),
        Route("/api/tags", models),
        Route("/api/ps", loaded),
        body_route("/api/show", ShowRequest, show),
    ]


OLLAMA = Api(ollama, ("/api/",), error_body)

"""The paths of Ollama's API."""

from __future__ import annotations

import time
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from localspec.server.handler import ApiRequest, RequestHandler
from localspec.server.model_host import ModelHost
from localspec.server.ollama.answer import Kind, OllamaAnswer, Words, failing, line
from localspec.server.ollama.listing import running, shown, tags
from localspec.server.ollama.managing import Named, managing
from localspec.server.ollama.request import GenerateRequest, OllamaChatRequest
from localspec.server.replies.streaming import LINES
from localspec.server.requests.reading import BoundedRoute

VERSION = "0.12.0"  # of Ollama, whose API this is: editors want one that is not too old


class ShowRequest(Named):
    verbose: bool = False  # harmless: there is no more to tell


def ollama(desk: RequestHandler) -> APIRouter:
    routes = APIRouter(route_class=BoundedRoute, tags=["Ollama"])
    asking(routes, desk)
    telling(routes, desk)
    managing(routes, desk)
    return routes


def asking(routes: APIRouter, desk: RequestHandler) -> None:
    async def answered(
        request: Request, body: OllamaChatRequest | GenerateRequest, kind: Kind
    ) -> Response:
        begun = time.perf_counter()
        words = Words(body.model, kind)
        if body.loads:
            await desk.take(request, body, body.model, too_long(desk.house, body))
            if body.unloads:
                await desk.manager(request)
                await desk.house.unload(desk.house.meant(body.model).name)
                return Response(line(words.loaded("unload")), media_type=LINES)
            await desk.house.preload(body.model)
            return Response(line(words.loaded()), media_type=LINES)
        errand = ApiRequest(
            body,
            body.model,
            body.prepared,
            partial(OllamaAnswer, words, begun),
            failing,
            stream=body.stream,
            media_type=LINES,
            besides=too_long(desk.house, body),
        )
        return await desk.serve(request, errand)

    @routes.post("/api/chat")
    async def chat(request: Request, body: OllamaChatRequest) -> Response:
        """Answer a conversation; without messages, load the model."""
        return await answered(request, body, "chat")

    @routes.post("/api/generate")
    async def generate(request: Request, body: GenerateRequest) -> Response:
        """Answer a prompt, or continue it; without one, load the model."""
        return await answered(request, body, "generate")


def too_long(house: ModelHost, body: OllamaChatRequest | GenerateRequest) -> list[str]:
    """A wish for more context than there is, which is answered with what there is."""
    offer = house.answering(body.model)
    served = house.loaded.get(offer.name)
    context = served.runtime.context if served else offer.context
    return ["options.num_ctx"] if body.options.num_ctx > context else []


def telling(routes: APIRouter, desk: RequestHandler) -> None:
    @routes.get("/", include_in_schema=False)
    async def greeting() -> Response:
        return PlainTextResponse("Ollama is running")  # clients look for these words

    @routes.get("/api/version")
    async def version() -> dict[str, str]:
        return {"version": VERSION}

    @routes.get("/api/tags")
    async def models() -> dict[str, object]:
        """List the models."""
        return tags(desk.house)

    @routes.get("/api/ps")
    async def loaded() -> dict[str, object]:
        return running(desk.house)

    @routes.post("/api/show")
    async def show(body: ShowRequest) -> dict[str, object]:
        offer = desk.house.meant(body.wanted)
        facts = await desk.house.facts(offer.name)
        return shown(offer, desk.house.loaded.get(offer.name), facts)

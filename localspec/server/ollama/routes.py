"""The paths of Ollama's API."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from localspec.server.faults import Fault, Refused, refused
from localspec.server.handler import ApiRequest, RequestHandler
from localspec.server.ollama.answer import Kind, OllamaAnswer, Words, failing, line
from localspec.server.ollama.listing import running, shown, tags
from localspec.server.ollama.request import ChatRequest, GenerateRequest
from localspec.server.replies.streaming import LINES
from localspec.server.requests.fields import Strict

VERSION = "0.12.0"  # of Ollama, whose API this is: editors want one that is not too old
WRITING = ("pull", "push", "create", "delete", "copy", "embed", "embeddings", "blobs/{digest}")


class ShowRequest(Strict):
    model: str = ""
    name: str = ""  # as older clients call it
    verbose: bool = False  # harmless: there is no more to tell


def ollama(desk: RequestHandler) -> APIRouter:
    routes = APIRouter(tags=["Ollama"])
    asking(routes, desk)
    telling(routes, desk)
    return routes


def asking(routes: APIRouter, desk: RequestHandler) -> None:
    async def answered(
        request: Request, body: ChatRequest | GenerateRequest, kind: Kind
    ) -> Response:
        begun = time.perf_counter()
        words = Words(body.model, kind)
        if body.loads:
            await desk.house.preload(body.model)
            return Response(line(words.loaded()), media_type=LINES)
        errand = ApiRequest(
            body.model,
            body.prepared,
            partial(OllamaAnswer, words, begun),
            failing,
            stream=body.stream,
            media_type=LINES,
        )
        return await desk.serve(request, errand)

    @routes.post("/api/chat")
    async def chat(request: Request, body: ChatRequest) -> Response:
        """Answer a conversation; without messages, load the model."""
        return await answered(request, body, "chat")

    @routes.post("/api/generate")
    async def generate(request: Request, body: GenerateRequest) -> Response:
        """Answer a prompt, or go on with it; without one, load the model."""
        return await answered(request, body, "generate")


def telling(routes: APIRouter, desk: RequestHandler) -> None:
    @routes.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def greeting() -> Response:
        return PlainTextResponse("Ollama is running")  # clients look for these words

    @routes.get("/api/version")
    async def version() -> dict[str, str]:
        return {"version": VERSION}

    @routes.get("/api/tags")
    async def models() -> dict[str, object]:
        """The models that can be asked for."""
        return tags(desk.house)

    @routes.get("/api/ps")
    async def loaded() -> dict[str, object]:
        return running(desk.house)

    @routes.post("/api/show")
    async def show(body: ShowRequest) -> dict[str, object]:
        name = body.model or body.name
        if not name:
            raise refused("say which model", "model")
        offer = desk.house.offer(name)
        return await asyncio.to_thread(shown, offer, desk.house.loaded.get(offer.name))

    for path in WRITING:
        routes.add_api_route(
            f"/api/{path}", unable, methods=["POST", "DELETE", "HEAD"], include_in_schema=False
        )


async def unable(request: Request) -> Response:
    raise Refused(Fault(501, f"this server has no {request.url.path}"))

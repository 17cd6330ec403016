"""The path of OpenAI's API of items."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from localspec.server.desk import Desk, Errand
from localspec.server.openai.responses import Numbered, ResponsesAnswer
from localspec.server.openai.responses_request import ResponsesRequest


def responses(desk: Desk) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.post("/responses")
    async def respond(request: Request, body: ResponsesRequest) -> Response:
        """Answer a conversation of items; nothing of it is kept."""
        events = Numbered()
        answer = partial(ResponsesAnswer, body, events)
        stream = bool(body.stream)
        errand = Errand(body.model, body.prepared, answer, events.failing, stream=stream)
        return await desk.serve(request, errand)

    return routes

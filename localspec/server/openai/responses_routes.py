"""The path of OpenAI's API of items."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from localspec.server.handler import ApiRequest, RequestHandler
from localspec.server.openai.responses import Numbered, ResponsesAnswer
from localspec.server.openai.responses_request import ResponsesRequest


def responses(desk: RequestHandler) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["OpenAI"])

    @routes.post("/responses")
    async def respond(request: Request, body: ResponsesRequest) -> Response:
        """Answer a conversation of items; nothing of it is kept."""
        events = Numbered()
        answer = partial(ResponsesAnswer, body, events)
        stream = bool(body.stream)
        errand = ApiRequest(body.model, body.prepared, answer, events.failing, stream=stream)
        return await desk.serve(request, errand)

    return routes

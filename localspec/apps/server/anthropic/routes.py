"""The paths of Anthropic's API."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.apps.server.anthropic.answer import MessagesAnswer, error_body, stream_error
from localspec.apps.server.anthropic.request import CountRequest, MessagesRequest
from localspec.apps.server.api import Api
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.requests.reading import BoundedRoute

UNTHREADED = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "this server keeps nothing between requests: send all messages, and no thread",
        "details": {"error_code": "thread_unsupported_request"},
    },
}


def anthropic(handler: RequestHandler) -> APIRouter:
    routes = APIRouter(route_class=BoundedRoute, prefix="/v1/messages", tags=["Anthropic"])

    @routes.post("")
    async def messages(request: Request, body: MessagesRequest) -> Response:
        """Answer a conversation."""
        if body.thread is not None:
            return JSONResponse(UNTHREADED, 400)
        answer = partial(MessagesAnswer.of, body)
        return await handler.serve(request, ApiRequest(body, answer, stream_error))

    @routes.post("/count_tokens")
    async def count(request: Request, body: CountRequest) -> dict[str, int]:
        """Count the tokens of a conversation without answering it."""
        return {"input_tokens": await handler.count_tokens(request, body)}

    return routes


ANTHROPIC = Api(("/v1/messages",), anthropic, error_body)

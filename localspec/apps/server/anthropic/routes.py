"""The paths of Anthropic's API."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from localspec.apps.server.anthropic.answer import MessagesAnswer, error_body, stream_error
from localspec.apps.server.anthropic.request import CountRequest, MessagesRequest
from localspec.apps.server.api import Api
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.requests.reading import body_route

UNTHREADED = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "this server keeps nothing between requests: send all messages, and no thread",
        "details": {"error_code": "thread_unsupported_request"},
    },
}


def anthropic(handler: RequestHandler) -> list[BaseRoute]:
    async def messages(request: Request, body: MessagesRequest) -> Response:
        """Answer a conversation."""
        if body.thread is not None:
            return JSONResponse(UNTHREADED, 400)
        answer = partial(MessagesAnswer.of, body)
        return await handler.serve(request, ApiRequest(body, answer, stream_error))

    async def count(request: Request, body: CountRequest) -> Response:
        """Count the tokens of a conversation without answering it."""
        return JSONResponse({"input_tokens": await handler.count_tokens(request, body)})

    return [
        body_route("/v1/messages", MessagesRequest, messages),
        body_route("/v1/messages/count_tokens", CountRequest, count),
    ]


ANTHROPIC = Api(anthropic, ("/v1/messages",), error_body)

"""Bodies of requests, read within bounds; large ones off the event loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from localspec.server.faults import refused
from localspec.server.preparing import Preparing
from localspec.server.replies.streaming import Gone
from localspec.server.requests.json_size import check_size

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
SHORT_BYTES = 1_024
LARGE_BYTES = 256 << 10
LARGE_VALUES = 10_000  # which take 0.1 s to check


SHORT = "localspec.short"  # key in the scope of a short request


class ReadRequest(Request):
    """A request with a checked body, in the form in which the framework asks for it."""

    def __init__(self, request: Request, checked: object) -> None:
        super().__init__(request.scope, request.receive)
        self._checked = checked

    async def body(self) -> bytes:
        return b"read"

    async def json(self) -> Any:
        return self._checked


class BoundedRoute(APIRoute):
    """Checks large bodies on a thread; the framework would do so on the event loop."""

    def get_route_handler(self) -> Handler:
        handler, field = super().get_route_handler(), self.body_field
        if field is None:
            return handler

        def parse_body(body: bytes) -> object:
            parsed, errors = field.validate(parse_json(body), {}, loc=("body",))
            if errors:
                raise RequestValidationError(errors)
            return parsed

        async def read(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0]
            try:
                body = await request.body() if kind.strip().endswith("json") else b""
            except ClientDisconnect as error:
                raise Gone from error
            if not body:
                return await handler(request)
            request.scope[SHORT] = len(body) <= SHORT_BYTES
            if len(body) <= LARGE_VALUES or not is_large(text_of(body)):
                return await handler(ReadRequest(request, parse_body(body)))
            preparing: Preparing = request.app.state.preparing
            preparing.admit(request)
            parsed = await preparing.run_for(request, partial(parse_body, body))
            return await handler(ReadRequest(request, parsed))

        return read


def is_short(request: Request) -> bool:
    """Return whether little is to be read: in less time than it takes to go to a thread."""
    return bool(request.scope.get(SHORT))


def is_large(text: str) -> bool:
    """Return whether checking a text would stop the event loop for long."""
    return len(text) > LARGE_BYTES or check_size(text).values > LARGE_VALUES


def parse_json(body: bytes) -> Any:
    """Parse JSON that is within the bounds."""
    text = text_of(body)
    check_size(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise refused("the body is not JSON") from error


def text_of(body: bytes) -> str:
    try:
        return body.decode(json.detect_encoding(body), "surrogatepass")
    except UnicodeDecodeError as error:
        raise refused("the body is not JSON") from error

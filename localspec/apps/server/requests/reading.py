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

from localspec.apps.server.faults import refused
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.replies.streaming import Gone
from localspec.apps.server.requests.json_size import check_size, is_small

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
        names = self._argument_names()

        async def answer(request: Request, parsed: object) -> Response:
            if not names:
                return await handler(ReadRequest(request, parsed))
            response: Response = await self.endpoint(
                **dict(zip(names, (request, parsed), strict=True))
            )
            return response

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
                return await answer(request, parse_body(body))
            preparing: Preparing = request.app.state.preparing
            preparing.admit(request)
            parsed = await preparing.run_for(request, partial(parse_body, body))
            return await answer(request, parsed)

        return read

    def _argument_names(self) -> tuple[str, str] | None:
        """Return what the endpoint calls the request and its body, if it takes these alone.

        The framework takes 0.15 ms to find arguments, a third of what a short request takes here.
        """
        takes = self.dependant
        others = takes.path_params, takes.query_params, takes.header_params, takes.cookie_params
        if takes.dependencies or any(others) or self.response_field or len(takes.body_params) != 1:
            return None
        name = takes.request_param_name
        return (name, takes.body_params[0].name) if name else None


def is_short(request: Request) -> bool:
    """Return whether little is to be read: in less time than it takes to go to a thread."""
    return bool(request.scope.get(SHORT))


def is_large(text: str) -> bool:
    """Return whether checking a text would stop the event loop for long."""
    return len(text) > LARGE_BYTES or check_size(text).values > LARGE_VALUES


def parse_json(body: bytes) -> Any:
    """Parse JSON that is within the bounds."""
    text = text_of(body)
    if not is_small(text):
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

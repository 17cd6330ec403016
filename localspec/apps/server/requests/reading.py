"""Bodies and queries of requests, read within bounds; large bodies off the event loop."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from localspec.apps.server.faults import refused
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.replies.streaming import Gone
from localspec.apps.server.requests.json_size import check_size, is_small

M = TypeVar("M", bound=BaseModel)
Join = Callable[[bytes], bytes]  # makes one object of a body in parts
BOUNDARY = b"--"  # that such a body begins with
SHORT_BYTES = 1_024
LARGE_BYTES = 256 << 10
LARGE_VALUES = 10_000  # which take 0.1 s to check
NO_OBJECT = "the body of the request must be a JSON object"
NO_MODEL = ("model_attributes_type", "model_type")  # kinds of errors where it is none
MAX_FIELD_LETTERS = 200  # of the name of a field, in an error

SHORT = "localspec.short"  # key in the scope of a short request


def body_route(
    path: str,
    kind: type[M],
    endpoint: Callable[[Request, M], Awaitable[Response]],
    method: str = "POST",
    *,
    join: Join | None = None,
) -> Route:
    """Return a route whose endpoint gets the request and its body, checked as a kind of model."""
    return Route(path, partial(with_body, kind, endpoint, join), methods=[method])


async def with_body(
    kind: type[M],
    endpoint: Callable[[Request, M], Awaitable[Response]],
    join: Join | None,
    request: Request,
) -> Response:
    return await endpoint(request, await read(request, kind, join))


async def read(request: Request, kind: type[M], join: Join | None = None) -> M:
    """Read the body of a request, joined if it is in parts; a large one is checked on a thread."""
    media_type = request.headers.get("content-type", "").partition(";")[0]
    try:
        body = await request.body()
    except ClientDisconnect as error:
        raise Gone from error
    if join and "origin" not in request.headers and body.startswith(BOUNDARY):
        body = await request.app.state.preparing.run_for(request, partial(join, body))
    elif body and not media_type.strip().lower().endswith("json"):
        raise refused(NO_OBJECT)
    request.scope[SHORT] = len(body) <= SHORT_BYTES
    if len(body) <= LARGE_VALUES or not is_large(text_of(body)):
        return parse(body, kind)
    preparing: Preparing = request.app.state.preparing
    preparing.admit(request)
    return await preparing.run_for(request, partial(parse, body, kind))


def read_query(request: Request, kind: type[M]) -> M:
    return check({**request.query_params}, kind, "query")


def parse(body: bytes, kind: type[M]) -> M:
    return check(parse_json(body) if body else None, kind)


def check(value: object, kind: type[M], *place: str) -> M:
    """Check a value as a kind of model; refuse it by its first fault, with the field at fault."""
    try:
        # Read from attributes, as well: errors of its parts then name no class of ours.
        return kind.model_validate(value, from_attributes=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, (*place, *fault["loc"])))[:MAX_FIELD_LETTERS]
        if field:
            raise refused(f"{field}: {fault['msg']}", field) from error
        raise refused(NO_OBJECT if fault["type"] in NO_MODEL else fault["msg"]) from error


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

"""The paths of OpenAI's API of items."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.faults import Fault, Refused, refused
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.openai.response_store import (
    ResponseStore,
    StoredResponse,
    with_identifiers,
)
from localspec.apps.server.openai.responses import Data, Numbered, ResponsesAnswer
from localspec.apps.server.openai.responses_input import Item, ReferenceItem
from localspec.apps.server.openai.responses_request import ResponsesRequest
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.paging import page
from localspec.apps.server.requests.prepared import Prepared
from localspec.apps.server.requests.reading import body_route, read_query
from localspec.apps.server.safety import owner
from localspec.apps.server.served import Served
from localspec.interfaces.media import Medium

ITEMS = TypeAdapter(list[Item])


class RetrieveQuery(BaseModel):
    stream: bool = False


class ItemsQuery(BaseModel):
    limit: int = Field(20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None


@dataclass(frozen=True, slots=True)
class RecalledRequest:
    """A request with all items for the model: those it goes on from, and its own."""

    body: ResponsesRequest
    items: Sequence[Item]

    @property
    def model(self) -> str:
        return self.body.model

    @property
    def stream(self) -> bool:
        return self.body.stream

    def ignored(self) -> Iterator[str]:
        return self.body.ignored()

    def references(self) -> Sequence[MediaReference]:
        return self.body.references_among(self.items)

    def prepare(self, served: Served, media: Sequence[Medium]) -> Sequence[Prepared]:
        return self.body.prepare(self.items, served, media)


def responses(handler: RequestHandler) -> list[BaseRoute]:
    store = ResponseStore(handler.policy.responses, handler.policy.cache_dir)
    return [*answering(handler, store), *stored(store)]


def answering(handler: RequestHandler, store: ResponseStore) -> list[BaseRoute]:
    async def recall(request: Request, body: ResponsesRequest) -> RecalledRequest:
        items = await handler.run(request, partial(items_of, body, store, owner(request)))
        return RecalledRequest(body, items)

    async def respond(request: Request, body: ResponsesRequest) -> Response:
        """Answer a conversation of items, from its start or going on from an earlier response."""
        if not store.most:
            body = body.model_copy(update={"store": False})
        recalled = await recall(request, body)

        def store_response(response: Data) -> None:
            store.add(stored_response(body, owner(request), response))

        async def keep(response: Data) -> None:
            if body.store is not False:
                await asyncio.to_thread(store_response, response)

        events = Numbered()
        api_request = ApiRequest(
            recalled,
            partial(ResponsesAnswer, body, body.model_tools(recalled.items), keep, events),
            events.stream_error,
        )
        return await handler.serve(request, api_request)

    async def count(request: Request, body: ResponsesRequest) -> Response:
        """Count the tokens of a conversation without answering it."""
        tokens = await handler.count_tokens(request, await recall(request, body))
        return JSONResponse({"object": "response.input_tokens", "input_tokens": tokens})

    return [
        body_route("/v1/responses", ResponsesRequest, respond),
        body_route("/v1/responses/input_tokens", ResponsesRequest, count),
    ]


def stored(store: ResponseStore) -> list[BaseRoute]:
    async def find_response(request: Request) -> StoredResponse:
        id = request.path_params["id"]
        response = await asyncio.to_thread(store.get, id, owner(request))
        if response is None:
            raise Refused(not_found(id))
        return response

    async def retrieve(request: Request) -> Response:
        """Return a stored response."""
        if read_query(request, RetrieveQuery).stream:
            raise refused("a stored response is returned whole: leave stream out", "stream")
        return as_json((await find_response(request)).response)

    async def delete(request: Request) -> Response:
        id = request.path_params["id"]
        if not await asyncio.to_thread(store.delete, id, owner(request)):
            raise Refused(not_found(id))
        return JSONResponse({"id": id, "object": "response", "deleted": True})

    async def cancel(request: Request) -> Response:
        await find_response(request)
        raise refused("this response is complete; one under way ends when its client hangs up")

    async def list_input_items(request: Request) -> Response:
        """List the items that a response was made from, a page at a time."""
        id, query = request.path_params["id"], read_query(request, ItemsQuery)
        chain = await asyncio.to_thread(store.chain, id, owner(request))
        if not chain:
            raise Refused(not_found(id))
        before = [item for response in chain[:-1] for item in response.items]
        items = [*before, *chain[-1].input]
        ordered = items[::-1] if query.order == "desc" else items
        return as_json(page(ordered, query.limit, query.after))

    return [
        Route("/v1/responses/{id}", retrieve),
        Route("/v1/responses/{id}", delete, methods=["DELETE"]),
        Route("/v1/responses/{id}/cancel", cancel, methods=["POST"]),
        Route("/v1/responses/{id}/input_items", list_input_items),
    ]


def as_json(value: object) -> Response:
    """Write what a client may have sent as NaN, which JSON has no word for, as null."""
    return Response(to_json(value, inf_nan_mode="null"), media_type="application/json")


def stored_response(body: ResponsesRequest, owner: str, response: Data) -> StoredResponse:
    dumped = [item.model_dump(by_alias=True, exclude_unset=True) for item in body.input]
    items = list(with_identifiers(dumped, str(response["id"])))
    return StoredResponse(owner, body.previous_response_id, items, response)


def items_of(body: ResponsesRequest, store: ResponseStore, owner: str) -> list[Item]:
    """List the items of the conversation so far, and those of the request."""
    earlier: list[Item] = []
    if body.previous_response_id:
        chain = store.chain(body.previous_response_id, owner)
        earlier = items_of_record(item for response in chain for item in response.items)
        if not earlier:
            raise Refused(previous_gone(body.previous_response_id, kept=store.most > 0))
    own_items: list[Item] = []
    for item in body.input:
        if not isinstance(item, ReferenceItem):
            own_items.append(item)
            continue
        kept = store.item(item.id, owner)
        kept_items = items_of_record([kept]) if kept else []
        if not kept_items:
            message = f"Item with id {item.id[:80]!r} not found: send the item itself"
            raise Refused(Fault(404, message, "input"))
        own_items += kept_items
    return earlier + own_items


def items_of_record(items: Iterable[Mapping[str, object]]) -> list[Item]:
    """Read stored items; none if another version stored them in another form."""
    try:
        return ITEMS.validate_python(list(items))
    except ValidationError:
        return []


def previous_gone(id: str, *, kept: bool) -> Fault:
    """Return the error after which clients send the whole conversation."""
    why = "send all items as input"
    if not kept:
        why += "; this server keeps no responses (--response-store)"
    message = f"Previous response with id {id[:80]!r} not found: {why}"
    return Fault(400, message, "previous_response_id", "previous_response_not_found")


def not_found(id: str) -> Fault:
    return Fault(404, f"Response with id {id[:80]!r} not found")

"""The paths of OpenAI's files and batches."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.batches.check import check
from localspec.apps.server.batches.store import Batch, BatchStore, StoredFile
from localspec.apps.server.batches.upload import upload_of
from localspec.apps.server.batches.work import BatchWork
from localspec.apps.server.faults import Fault, Refused, refused
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.replies.frame import new_id
from localspec.apps.server.replies.streaming import Gone
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.paging import page
from localspec.apps.server.requests.reading import body_route, read_query
from localspec.apps.server.safety import foreign, owner

Endpoint = Literal[
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"
]
PURPOSE = "batch"


class NewBatch(RequestPart):
    input_file_id: str
    endpoint: Endpoint
    completion_window: Annotated[str, Field(max_length=64)] = "24h"
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] = (
        Field(default_factory=dict, max_length=16)
    )


class FilesQuery(BaseModel):
    limit: int = Field(10_000, ge=1, le=10_000)
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"
    purpose: str | None = None


class BatchesQuery(BaseModel):
    limit: int = Field(20, ge=1, le=100)
    after: str | None = None


def batch_routes(handler: RequestHandler, work: BatchWork | None) -> list[BaseRoute]:
    """Return the routes of files and batches; there are none where a server keeps none."""
    if work is None:
        return []
    files, batches = FilePaths(handler, work), BatchPaths(handler, work)
    return [
        Route("/v1/files", files.upload, methods=["POST"]),
        Route("/v1/files", files.list),
        Route("/v1/files/{id}", files.retrieve),
        Route("/v1/files/{id}", files.delete, methods=["DELETE"]),
        Route("/v1/files/{id}/content", files.content),
        body_route("/v1/batches", NewBatch, batches.create),
        Route("/v1/batches", batches.list),
        Route("/v1/batches/{id}", batches.retrieve),
        Route("/v1/batches/{id}/cancel", batches.cancel, methods=["POST"]),
    ]


@dataclass(frozen=True, slots=True)
class FilePaths:
    handler: RequestHandler
    work: BatchWork

    async def upload(self, request: Request) -> Response:
        """Keep a file of requests, one a line."""
        if fault := foreign(request.headers, self.handler.policy.origins):
            raise Refused(fault)
        try:
            body = await request.body()
        except ClientDisconnect as error:
            raise Gone from error
        kind = request.headers.get("content-type", "")
        form = await self.handler.run(request, partial(upload_of, body, kind))
        if form.fields.get("purpose") != PURPOSE:
            raise refused("files are kept for batches alone: send purpose=batch", "purpose")
        self.handler.note_ignored(request, sorted(set(form.fields) - {"purpose"}))
        store = await self.work.store()
        adding = partial(store.add, owner(request), form.filename, PURPOSE, form.data)
        return JSONResponse((await asyncio.to_thread(adding)).api_object())

    async def retrieve(self, request: Request) -> Response:
        _, file = await self._file(request)
        return JSONResponse(file.api_object())

    async def content(self, request: Request) -> Response:
        store, file = await self._file(request)
        return FileResponse(store.content(file.id), media_type="application/octet-stream")

    async def delete(self, request: Request) -> Response:
        store, file = await self._file(request)
        if reader := store.reader(file):
            raise Refused(Fault(409, f"{reader} reads this file: cancel it first"))
        await asyncio.to_thread(store.delete, file.id)
        return JSONResponse({"id": file.id, "object": "file", "deleted": True})

    async def list(self, request: Request) -> Response:
        query, store = read_query(request, FilesQuery), await self.work.store()
        own = store.files_of(owner(request))
        ordered = own if query.order == "asc" else own[::-1]
        chosen = [f.api_object() for f in ordered if query.purpose in (None, f.purpose)]
        return JSONResponse(page(chosen, query.limit, query.after))

    async def _file(self, request: Request) -> tuple[BatchStore, StoredFile]:
        id, store = request.path_params["id"], await self.work.store()
        file = store.files.get(id)
        if file is None or file.owner != owner(request):
            raise Refused(Fault(404, f"there is no file {id[:80]!r}", "id"))
        return store, file


@dataclass(frozen=True, slots=True)
class BatchPaths:
    handler: RequestHandler
    work: BatchWork

    async def create(self, request: Request, body: NewBatch) -> Response:
        """Begin a batch, or report why its file cannot be worked on."""
        self.handler.note_ignored(request, [*body.ignored()])
        store = await self.work.store()
        file = store.files.get(body.input_file_id)
        if file is None or file.owner != owner(request) or file.purpose != PURPOSE:
            message = f"there is no file {body.input_file_id[:80]!r} of requests"
            raise Refused(Fault(404, message, "input_file_id"))
        checked = await asyncio.to_thread(check, store.content(file.id), body.endpoint)
        offer = None if checked.errors else self.work.offer(body.endpoint, checked.model)
        batch = Batch(
            id=new_id("batch_"),
            owner=file.owner,
            endpoint=body.endpoint,
            input_file_id=file.id,
            completion_window=body.completion_window,
            metadata=body.metadata,
            model=checked.model,
            served=offer.name if offer else "",
            total=checked.total,
            errors=checked.errors,
            answers=new_id("file-"),
            refusals=new_id("file-"),
            times={"created_at": int(time.time())},
        )
        batch.become("failed" if checked.errors else "in_progress")
        if file.id not in store.files:  # deleted while it was checked
            raise Refused(Fault(404, "the file was deleted", "input_file_id"))
        store.begin(batch)
        self.work.wake()
        return JSONResponse(batch.api_object())

    async def retrieve(self, request: Request) -> Response:
        _, batch = await self._batch(request)
        return JSONResponse(batch.api_object())

    async def cancel(self, request: Request) -> Response:
        """End a batch; what is answered already is kept."""
        store, batch = await self._batch(request)
        if not batch.is_open:
            raise Refused(Fault(409, f"this batch has ended: it is {batch.status}"))
        self.work.cancel(store, batch)
        return JSONResponse(batch.api_object())

    async def list(self, request: Request) -> Response:
        query, store = read_query(request, BatchesQuery), await self.work.store()
        own = [b.api_object() for b in store.batches.values() if b.owner == owner(request)]
        return JSONResponse(page(own[::-1], query.limit, query.after))

    async def _batch(self, request: Request) -> tuple[BatchStore, Batch]:
        id, store = request.path_params["id"], await self.work.store()
        batch = store.batches.get(id)
        if batch is None or batch.owner != owner(request):
            raise Refused(Fault(404, f"there is no batch {id[:80]!r}", "id"))
        return store, batch

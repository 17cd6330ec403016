"""The paths of llama.cpp's server by which models are loaded and unloaded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, NamedTuple

from pydantic import BaseModel, RootModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.model_events import Event
from localspec.apps.server.model_library import Download
from localspec.apps.server.replies.frame import event
from localspec.apps.server.replies.streaming import KEEP_ALIVE, SSE, logged_fault
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.lora import LoraScales, by_number
from localspec.apps.server.requests.reading import body_route, check, read_query
from localspec.core.prefix_cache.slots import Slots

Object = dict[str, object]
Action = Literal["save", "restore", "erase"]
AdapterScales = RootModel[LoraScales]


class NamedModel(RequestPart):
    model: str


class NamedFile(RequestPart):
    filename: str = ""
    model: str = ""


class ModelQuery(BaseModel):
    model: str


OptionalFile = RootModel[NamedFile | None]


class SlotPath(BaseModel):
    id: int


class SlotQuery(BaseModel):
    action: Action


class SlotAction(NamedTuple):
    slot: int
    kind: Action
    filename: str

    def run(self, slots: Slots) -> tuple[int, int]:
        """Run between two rounds; return the number of tokens and of bytes moved."""
        match self.kind:
            case "save":
                return slots.save(self.slot, self.filename)
            case "restore":
                return slots.restore(self.slot, self.filename)
            case "erase":
                return slots.erase(self.slot)

    def result(self, tokens: int, size: int, seconds: float) -> Object:
        slot, duration = {"id_slot": self.slot, "filename": self.filename}, f"{self.kind}_ms"
        match self.kind:
            case "save":
                counts = {"n_saved": tokens, "n_written": size}
            case "restore":
                counts = {"n_restored": tokens, "n_read": size}
            case "erase":
                return {"id_slot": self.slot, "n_erased": tokens}
        return {**slot, **counts, "timings": {duration: seconds * 1000}}


def managing(handler: RequestHandler) -> list[BaseRoute]:
    return [*loading(handler), *adjusting(handler)]


def loading(handler: RequestHandler) -> list[BaseRoute]:
    async def load(request: Request, body: NamedModel) -> Response:
        """Begin to load a model; `/models/sse` reports when it is loaded."""
        await handler.manager(request)
        await handler.downloads.look_for(body.model)
        handler.host.begin_loading(body.model)
        return JSONResponse({"success": True})

    async def unload(request: Request, body: NamedModel) -> Response:
        """Free a model's memory, at once or when its requests have ended; or stop its download."""
        await handler.manager(request)
        if handler.downloads.stop(body.model):
            return JSONResponse({"success": True})
        requests = await handler.host.unload(body.model)
        return JSONResponse({"success": True, "requests": requests})

    async def download(request: Request, body: NamedModel) -> Response:
        """Begin to download a model; `/models/sse` reports how far it is."""
        await handler.manager(request)
        handler.host.work(follow_download(handler, body.model, handler.downloads.begin(body.model)))
        return JSONResponse({"success": True})

    async def delete(request: Request) -> Response:
        """Forget a model that was pulled, and free its disk."""
        await handler.manager(request)
        await handler.downloads.delete(read_query(request, ModelQuery).model)
        return JSONResponse({"success": True})

    async def follow(_: Request) -> Response:
        """Stream the events of the models for as long as a client listens."""
        lines = event_lines(handler.host.events.listen())
        return StreamingResponse(lines, media_type=SSE, headers={"Cache-Control": "no-store"})

    return [
        body_route("/models/load", NamedModel, load),
        body_route("/models/unload", NamedModel, unload),
        body_route("/models", NamedModel, download),
        Route("/models", delete, methods=["DELETE"]),
        Route("/models/sse", follow),
    ]


def adjusting(handler: RequestHandler) -> list[BaseRoute]:
    async def scale(request: Request, body: AdapterScales) -> Response:
        """Set the scales of adapters for requests that name none; those left out are off."""
        await handler.manager(request)
        offer = handler.host.offers.meant_by(request.query_params.get("model", ""))
        offer.adapters.scale(by_number(body.root))
        return JSONResponse({"success": True})

    async def act(request: Request, body: OptionalFile) -> Response:
        """Save a slot's text to a file of the cache folder, restore it, or erase it."""
        await handler.manager(request)
        slot = check(request.path_params, SlotPath, "path").id
        action = read_query(request, SlotQuery).action
        file, begun = body.root or NamedFile(), time.perf_counter()
        slot_action = SlotAction(slot, action, file.filename)
        async with handler.host.lease(file.model) as served:
            moved = await asyncio.to_thread(served.runtime.slot_action, slot_action.run)
        return JSONResponse(slot_action.result(*moved, time.perf_counter() - begun))

    return [
        body_route("/lora-adapters", AdapterScales, scale),
        body_route("/slots/{id}", OptionalFile, act),
    ]


async def event_lines(changes: AsyncGenerator[Event | None]) -> AsyncGenerator[bytes]:
    """Encode events; the first line comes at once, since the head of an answer goes with it."""
    yield KEEP_ALIVE
    async for change in changes:
        yield KEEP_ALIVE if change is None else event(change)


async def follow_download(
    handler: RequestHandler, name: str, downloading: AsyncGenerator[Download]
) -> None:
    """Report to listeners how far a download is, and how it ended."""
    tell, last = handler.host.events.publish, -1
    try:
        async with aclosing(downloading) as steps:
            async for step in steps:
                if step.done != last:
                    last = step.done
                    progress = {"done": last, "total": step.total}
                    tell(name, "download_progress", {name: progress})
        tell(name, "download_finished")
    except Exception as error:
        tell(name, "download_failed", {"message": logged_fault(error).message})

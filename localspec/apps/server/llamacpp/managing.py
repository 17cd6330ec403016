"""The paths of llama.cpp's server by which models are loaded and unloaded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, NamedTuple

from fastapi import APIRouter, Depends
from starlette.responses import Response, StreamingResponse

from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.model_events import Event
from localspec.apps.server.model_library import Download
from localspec.apps.server.replies.frame import event
from localspec.apps.server.replies.streaming import KEEP_ALIVE, SSE, logged_fault
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.lora import LoraScales, by_number
from localspec.core.prefix_cache.slots import Slots

Object = dict[str, object]
Action = Literal["save", "restore", "erase"]


class NamedModel(RequestPart):
    model: str


class NamedFile(RequestPart):
    filename: str = ""
    model: str = ""


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


def managing(routes: APIRouter, handler: RequestHandler) -> None:
    allowed = [Depends(handler.manager)]

    @routes.post("/models/load", dependencies=allowed)
    async def load(body: NamedModel) -> Object:
        """Begin to load a model; `/models/sse` reports when it is loaded."""
        await handler.downloads.look_for(body.model)
        handler.host.begin_loading(body.model)
        return {"success": True}

    @routes.post("/models/unload", dependencies=allowed)
    async def unload(body: NamedModel) -> Object:
        """Free a model's memory, at once or when its requests have ended; or stop its download."""
        if handler.downloads.stop(body.model):
            return {"success": True}
        return {"success": True, "requests": await handler.host.unload(body.model)}

    @routes.post("/models", dependencies=allowed, include_in_schema=False)
    async def download(body: NamedModel) -> Object:
        """Begin to download a model; `/models/sse` reports how far it is."""
        handler.host.work(follow_download(handler, body.model, handler.downloads.begin(body.model)))
        return {"success": True}

    @routes.delete("/models", dependencies=allowed)
    async def delete(model: str) -> Object:
        """Forget a model that was pulled, and free its disk."""
        await handler.downloads.delete(model)
        return {"success": True}

    @routes.post("/lora-adapters", dependencies=allowed)
    async def scale(body: LoraScales, model: str = "") -> Object:
        """Set the scales of adapters for requests that name none; those left out are off."""
        handler.host.offers.meant_by(model).adapters.scale(by_number(body))
        return {"success": True}

    @routes.post("/slots/{id}", dependencies=allowed)
    async def act(id: int, action: Action, body: NamedFile | None = None) -> Object:
        """Save a slot's text to a file of the cache folder, restore it, or erase it."""
        file, begun = body or NamedFile(), time.perf_counter()
        slot_action = SlotAction(id, action, file.filename)
        async with handler.host.lease(file.model) as served:
            moved = await asyncio.to_thread(served.runtime.slot_action, slot_action.run)
        return slot_action.result(*moved, time.perf_counter() - begun)

    @routes.get("/models/sse")
    async def follow() -> Response:
        """Stream the events of the models for as long as a client listens."""
        lines = event_lines(handler.host.events.listen())
        return StreamingResponse(lines, media_type=SSE, headers={"Cache-Control": "no-store"})


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

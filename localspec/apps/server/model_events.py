"""Publishes what happens to the models: loading, loaded, unloaded, downloaded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from weakref import WeakSet

from localspec.apps.server.faults import overloaded

MAX_LISTENERS = 64
MAX_UNREAD = 256  # events that a slow listener may be behind; it misses the oldest then
QUIET_SECONDS = 10.0  # after which a client should hear that the server still lives

Event = Mapping[str, object]
NOTHING: Event = MappingProxyType({})


class ModelEvents:
    """The events of models and their listeners; belongs to the event loop."""

    def __init__(self) -> None:
        self._closed = False
        # Weak, since a listener that goes before it begins to listen informs nobody.
        self._queues: WeakSet[asyncio.Queue[Event | None]] = WeakSet()

    def publish(self, model: str, event: str, data: Mapping[str, object] = NOTHING) -> None:
        self._put({"model": model, "event": event, "data": dict(data)})

    def close(self) -> None:
        """End all listening, so that connections do not hold up the end of the server."""
        self._closed = True
        self._put(None)

    def _put(self, event: Event | None) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)

    def listen(self) -> AsyncGenerator[Event | None]:
        """Yield events from now on, and None whenever none came for a while."""
        if len(self._queues) >= MAX_LISTENERS:
            raise overloaded(f"{MAX_LISTENERS} clients listen already")
        queue: asyncio.Queue[Event | None] = asyncio.Queue(MAX_UNREAD)
        self._queues.add(queue)
        return self._changes(queue)

    async def _changes(self, queue: asyncio.Queue[Event | None]) -> AsyncGenerator[Event | None]:
        try:
            while not self._closed:
                try:
                    yield await asyncio.wait_for(queue.get(), QUIET_SECONDS)
                except TimeoutError:
                    yield None
        finally:
            self._queues.discard(queue)

"""Tells listeners what becomes of the models: loading, loaded, unloaded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from types import MappingProxyType
from weakref import WeakSet

from localspec.server.faults import overloaded

LISTENERS = 64  # at once
BEHIND = 256  # events that a slow listener may be behind; it misses the oldest then

LOOK_SECONDS = 1.0  # after which a listener looks whether the server ends
PATIENCE = 10  # such looks after which its client should hear that the server still lives

Event = Mapping[str, object]
NOTHING: Event = MappingProxyType({})


class ModelEvents:
    """The events of models and their listeners; belongs to the event loop."""

    def __init__(self) -> None:
        self.ended: Callable[[], bool] = lambda: False  # whether listeners should go
        # Weak, since a listener that goes before it begins to listen tells nobody.
        self._queues: WeakSet[asyncio.Queue[Event]] = WeakSet()

    def publish(self, model: str, event: str, data: Mapping[str, object] = NOTHING) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait({"model": model, "event": event, "data": dict(data)})

    def listen(self) -> AsyncGenerator[Event | None]:
        """Yield events from now on, as they come, and None whenever none came for a while."""
        if len(self._queues) >= LISTENERS:
            raise overloaded(f"{LISTENERS} clients listen already")
        queue: asyncio.Queue[Event] = asyncio.Queue(BEHIND)
        self._queues.add(queue)
        return self._changes(queue)

    async def _changes(self, queue: asyncio.Queue[Event]) -> AsyncGenerator[Event | None]:
        quiet = 0
        try:
            while not self.ended():
                try:
                    yield await asyncio.wait_for(queue.get(), LOOK_SECONDS)
                    quiet = 0
                except TimeoutError:
                    quiet += 1
                    if quiet % PATIENCE == 0:
                        yield None
        finally:
            self._queues.discard(queue)

"""One reply on its way from the models' thread to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from localspec.job import Chunk, Event, Job, Result
from localspec.server.faults import Fault, Refused
from localspec.server.house import Served
from localspec.settings import Settings

QUIET_SECONDS = 10.0  # after which a client should hear that the server still lives


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a reply may take, and whether one that takes longer is just cut."""

    seconds: float
    cuts: bool = False
    reading_seconds: float = QUIET_SECONDS  # after which it should, while its prompt is read


@dataclass(slots=True, eq=False)
class Exchange:
    """Iterate for chunks, and None where nothing came for a while; then read `result`."""

    limit: Limit
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    result: Result | None = None
    job: Job | None = None

    async def begin(self, served: Served, tokens: Sequence[int], settings: Settings) -> None:
        """Queue the request; what is wrong with it is raised here."""
        loop = asyncio.get_running_loop()

        def hear(event: Event) -> None:
            if isinstance(event, Result):
                served.note(event)
            with suppress(RuntimeError):  # the loop has ended, and nobody listens any more
                loop.call_soon_threadsafe(self.events.put_nowait, event)

        submitting = asyncio.ensure_future(
            asyncio.to_thread(served.runtime.submit, tokens, settings, hear)
        )
        try:
            self.job = await asyncio.shield(submitting)
        except asyncio.CancelledError:
            submitting.add_done_callback(_drop)
            raise

    def cancel(self) -> None:
        """Free its slot after the current round."""
        if self.job is not None:
            self.job.cancelled = True

    async def chunks(self) -> AsyncIterator[Chunk | None]:
        loop = asyncio.get_running_loop()
        end, quiet = loop.time() + self.limit.seconds, self.limit.reading_seconds
        while self.result is None:
            left = end - loop.time()
            event = await self._next(min(left, quiet)) if left > 0 else None
            if event is None and loop.time() >= end:
                event = await self._cut()
            if isinstance(event, Exception):
                raise event
            if isinstance(event, Result):
                self.result = event
            else:
                quiet = QUIET_SECONDS if event else quiet
                yield event

    async def _next(self, seconds: float) -> Event | None:
        try:
            async with asyncio.timeout(seconds):  # wait_for of 3.11 may lose a cancellation
                return await self.events.get()
        except TimeoutError:
            return None

    async def _cut(self) -> Event:
        """End a reply that takes too long."""
        self.cancel()
        if not self.limit.cuts:
            message = f"the reply took longer than {self.limit.seconds:g} s, which is the limit"
            return Refused(Fault(504, message, code="timeout"))
        return await self.events.get()


def _drop(submitting: asyncio.Future[Job]) -> None:
    """A request whose client went away while it was looked at."""
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancelled = True

"""Prepares requests on threads, for as long as their clients listen.

Large requests share one thread, one after the other, so that no other request waits for them, and
so do pictures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from starlette.requests import Request

from localspec.apps.server.faults import overloaded
from localspec.apps.server.replies.streaming import while_listening
from localspec.apps.server.turns import Turns
from localspec.base.interruption import Patience

T = TypeVar("T")
THREADS = 2  # for small requests; each keeps the most memory that it ever needed
MAX_WAITING = 16  # large requests: each may keep some 100 MB of memory until it is its turn
LARGE = "localspec.large"  # key in the scope of a large request


class Preparing:
    """The threads of such work. Belongs to the event loop."""

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(THREADS, "requests")
        self._large = ThreadPoolExecutor(1, "large-requests")
        self._looking = ThreadPoolExecutor(1, "looking")
        self._turns = Turns("pictures")
        self.waiting = 0  # large requests that are read, or wait for it

    def admit(self, request: Request) -> None:
        """Queue a request with the other large ones, or refuse it if too many wait."""
        if LARGE in request.scope:
            return
        if self.waiting >= MAX_WAITING:
            raise overloaded(f"{self.waiting} large requests wait to be read; {MAX_WAITING} may")
        request.scope[LARGE] = True

    async def run(self, work: Callable[[], T], pool: ThreadPoolExecutor | None = None) -> T:
        """Do some work on a thread; cancelled work ends at its next check of the patience.

        This returns or raises only once the thread has left the work: a model may be closed then.
        """
        patience, context = Patience(), copy_context()

        def lent() -> T:
            with patience.lent():
                return work()

        working = (pool or self._small).submit(context.run, lent)
        try:
            return await asyncio.wrap_future(working)
        finally:
            patience.over = True
            await ended(working)

    async def run_for(self, request: Request, work: Callable[[], T]) -> T:
        """Do some work for a request, unless its client leaves first."""
        if LARGE not in request.scope:
            return await while_listening(request.receive, self.run(work))
        self.waiting += 1
        try:
            return await while_listening(request.receive, self.run(work, self._large))
        finally:
            self.waiting -= 1

    async def run_in_turn(self, work: Callable[[], T], pixels: int) -> T:
        """Do what takes a picture of a request; between two of them others have their turn."""
        async with self._turns.turn(pixels):
            return await self.run(work, self._looking)

    def close(self) -> None:
        for pool in (self._small, self._large, self._looking):
            pool.shutdown(wait=False, cancel_futures=True)


async def ended(working: Future[T]) -> None:
    """Wait until a thread has left some work, also while somebody cancels."""
    while not working.done():
        with suppress(Exception, asyncio.CancelledError):
            await asyncio.shield(asyncio.wrap_future(working))

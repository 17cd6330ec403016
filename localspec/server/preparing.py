"""Prepares requests on threads, for as long as their clients listen.

Large requests share one thread, one after the other, so that no other request waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from starlette.requests import Request

from localspec.interruption import Patience
from localspec.server.faults import overloaded
from localspec.server.replies.streaming import while_listening

T = TypeVar("T")
THREADS = 2  # for small requests; each keeps the most memory that it ever needed
MAX_WAITING = 16  # large requests: each may keep some 100 MB of memory until it is its turn
LARGE = "localspec.large"  # key in the scope of a large request


class Preparing:
    """The threads of such work. Belongs to the event loop."""

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(THREADS, "requests")
        self._large = ThreadPoolExecutor(1, "large-requests")
        self.waiting = 0

    def admit(self, request: Request) -> None:
        """Queue a request with the other large ones, or refuse it if too many wait."""
        if LARGE in request.scope:
            return
        if self.waiting >= MAX_WAITING:
            raise overloaded(f"{self.waiting} large requests wait to be read; {MAX_WAITING} may")
        request.scope[LARGE] = True

    async def run(self, work: Callable[[], T], *, large: bool = False) -> T:
        """Do some work on a thread; cancelled work ends at its next check of the patience.

        This returns or raises only once the thread has left the work: a model may be closed then.
        """
        patience, context = Patience(), copy_context()

        def lent() -> T:
            with patience.lent():
                return work()

        pool = self._large if large else self._small
        working = pool.submit(context.run, lent)
        self.waiting += large
        try:
            return await asyncio.wrap_future(working)
        finally:
            patience.over = True
            await ended(working)
            self.waiting -= large

    async def run_for(self, request: Request, work: Callable[[], T]) -> T:
        """Do some work for a request, unless its client leaves first."""
        large = LARGE in request.scope
        return await while_listening(request.receive, self.run(work, large=large))

    def close(self) -> None:
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)


async def ended(working: Future[T]) -> None:
    """Wait until a thread has left some work, also while somebody cancels."""
    while not working.done():
        with suppress(Exception, asyncio.CancelledError):
            await asyncio.shield(asyncio.wrap_future(working))

"""Prepares requests on threads, for as long as their clients listen.

Large requests share one thread, one after the other, so that no other request waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from starlette.requests import Request

from localspec.interruption import Patience
from localspec.server.faults import overloaded
from localspec.server.replies.streaming import while_listening

T = TypeVar("T")
MAX_WAITING = 16  # large requests: each may keep some 100 MB of memory until it is its turn
LARGE = "localspec.large"  # key in the scope of a large request


class Preparing:
    """The threads of such work. Belongs to the event loop."""

    def __init__(self) -> None:
        self._large = ThreadPoolExecutor(1, "large-requests")
        self._waiting = 0

    def admit(self, request: Request) -> None:
        """Queue a request with the other large ones, or refuse it if too many wait."""
        if LARGE in request.scope:
            return
        if self._waiting >= MAX_WAITING:
            raise overloaded(f"{self._waiting} large requests wait to be read; {MAX_WAITING} may")
        request.scope[LARGE] = True

    def run(self, work: Callable[[], T], *, large: bool = False) -> asyncio.Future[T]:
        """Begin some work; cancelled work ends at its next check of the patience."""
        patience, context = Patience(), copy_context()

        def lent() -> T:
            with patience.lent():
                return work()

        def end(_: asyncio.Future[T]) -> None:
            patience.over = True
            self._waiting -= large

        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(self._large if large else None, context.run, lent)
        self._waiting += large
        working.add_done_callback(end)
        return working

    async def run_for(self, request: Request, work: Callable[[], T]) -> T:
        """Do some work for a request, unless its client leaves first."""
        large = LARGE in request.scope
        return await while_listening(request.receive, self.run(work, large=large))

    def close(self) -> None:
        self._large.shutdown(wait=False, cancel_futures=True)

"""Work that is done one piece at a time, the smallest first of what waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from localspec.apps.server.faults import overloaded

MAX_WAITING = 16  # each may keep a file of some 30 MB


class Turns:
    """Belongs to the event loop. Where too many wait, the largest piece of work is refused."""

    def __init__(self, contents: str) -> None:
        self._contents = contents
        self._taken = False
        self._waiting: dict[tuple[int, int], asyncio.Future[None]] = {}  # by size, and by number
        self._numbers = count()

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait for a turn, and take it."""
        if self._taken:
            await self._wait((size, next(self._numbers)))
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, place: tuple[int, int]) -> None:
        waiting = self._waiting[place] = asyncio.get_running_loop().create_future()
        if len(self._waiting) > MAX_WAITING:
            largest = self._waiting.pop(max(self._waiting))
            if not largest.done():
                message = f"{MAX_WAITING} requests with {self._contents} wait, as many as may"
                largest.set_exception(overloaded(message))
        try:
            await waiting
        except asyncio.CancelledError:
            self._waiting.pop(place, None)
            if not waiting.cancelled() and not waiting.exception():  # it was its turn already
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        self._taken = False
        while self._waiting and not self._taken:
            waiting = self._waiting.pop(min(self._waiting))
            if not waiting.done():
                waiting.set_result(None)
                self._taken = True

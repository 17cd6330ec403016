"""A bell that wakes the event loop from other threads, as rarely and cheaply as possible."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

Call = Callable[[], None]

FRAME = 1 / 20  # seconds between two writes of a stream that has more to say
MAX_FRAMES = 2.0  # of those seconds at most, beside other streams


class Bell:
    """Calls functions on an event loop for other threads, all that are due at once.

    Where the system has descriptors for events, one of them wakes the loop: `call_soon_threadsafe`
    makes a handle, locks, and has the loop read its socket twice, some 0.04 ms beside a busy model.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: deque[Call] = deque()
        self._rung = False  # whether the loop will come to look at them
        self.replies = 0  # that are on their way
        self._descriptor: int | None = None
        if sys.platform == "linux":
            self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._loop.add_reader(self._descriptor, self._answer)

    def call(self, call: Call) -> None:
        """Call a function on the event loop; any thread may."""
        self._calls.append(call)
        if not self._rung:
            self._rung = True
            self._ring()

    @property
    def frame(self) -> float:
        """Seconds between two writes of a fast stream; more leave more time to the models."""
        return FRAME * min(max(self.replies, 1), MAX_FRAMES)

    def next_frame(self) -> float:
        """Return when the next frame begins, by the clock of the loop: for all streams at once."""
        frame = self.frame
        return (self._loop.time() // frame + 1) * frame

    def close(self) -> None:
        """Call nothing any more."""
        self._rung = True  # or a late call would write to what the descriptor's number is by then
        if self._descriptor is not None and sys.platform == "linux":
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _ring(self) -> None:
        if self._descriptor is not None and sys.platform == "linux":
            os.eventfd_write(self._descriptor, 1)
        else:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        if self._descriptor is not None and sys.platform == "linux":
            os.eventfd_read(self._descriptor)
        self._rung = False  # before the calls: what is asked for from now on rings again
        while self._calls:
            self._calls.popleft()()

"""An event loop for what waits by its clock: the time leaps to what is due next."""

from __future__ import annotations

import asyncio


class LeapingLoop(asyncio.SelectorEventLoop):
    """Waits for nothing; what computes or is read takes no time."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()
        look = self._selector.select

        def select(timeout):
            events = look(timeout and 0)
            if not events and timeout:
                self._now += timeout
            return events

        self._selector.select = select

    def time(self) -> float:
        return self._now


def run(coroutine):
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(coroutine)

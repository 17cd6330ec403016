"""Replies on their way from the models' thread to the event loop: one queue for each request."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.replies.bell import Bell
from localspec.apps.server.served import Served
from localspec.core.requests.job import Chunk, Event, Job, Result
from localspec.core.requests.settings import Settings

QUIET_SECONDS = 10.0  # after which a client should hear that the server still lives
LONG_PROMPT = 100_000  # tokens of a prompt, which take milliseconds to check
MAX_EVENTS = 64  # taken at once; more of them wait for a slow client

Arrival = tuple[int, Event | None]  # of which reply; None: nothing came for a while


@dataclass(frozen=True, slots=True)
class Limit:
    """The time that a reply may take, and whether a longer one is cut or fails."""

    seconds: float
    cuts: bool = False
    reading_seconds: float = QUIET_SECONDS  # after which it should, while its prompt is read


class Inbox:
    """A queue from any thread to the event loop.

    The loop is only woken if it waits: what came meanwhile is taken together. A fast reply is taken
    once in a frame: each waking costs 0.25 ms beside a model that computes.
    """

    def __init__(self, bell: Bell) -> None:
        self._loop = asyncio.get_running_loop()
        self._bell = bell
        self._arrivals: deque[Arrival] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._pausing = False  # whether only what is urgent may wake it
        self._urgent = False  # whether something other than a chunk has come
        self._taken = -math.inf  # when, by the clock of the loop
        self._fast = False

    def put(self, number: int, event: Event | None) -> None:
        self._arrivals.append((number, event))
        if not isinstance(event, Chunk):
            self._urgent = True
        elif self._pausing:
            return
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._bell.call(partial(_wake, waiting))

    async def arrivals(self) -> list[Arrival]:
        """Wait for an event; return all that have come."""
        if self._fast:
            await self._pause()
        while not self._arrivals:
            waiting = self._loop.create_future()
            self._waiting = waiting
            if not self._arrivals:  # else one came before it could be seen that somebody waits
                await waiting
        now = self._loop.time()
        self._fast, self._taken = now - self._taken < 1.5 * self._bell.frame, now
        return [self._arrivals.popleft() for _ in range(min(len(self._arrivals), MAX_EVENTS))]

    async def _pause(self) -> None:
        """Wait until the end of the frame or of the reply."""
        waiting = self._loop.create_future()
        self._waiting, self._pausing = waiting, True
        timer = self._loop.call_at(self._bell.next_frame(), _wake, waiting)
        if not self._urgent:
            await waiting
        timer.cancel()
        self._pausing = False


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class Exchange:
    """The way of one reply: its request to the models, its time limit, its signs of life."""

    def __init__(self, limit: Limit, inbox: Inbox, number: int = 0) -> None:
        self.job: Job | None = None
        self._limit = limit
        self._inbox = inbox
        self._number = number
        self._ended = False  # whether its last event has come; the models' thread sets it
        self._end = math.inf  # by the clock of the loop
        self._heard = math.inf  # when something came of it
        self._quiet = limit.reading_seconds

    @property
    def over(self) -> bool:
        return self._ended

    async def begin(self, served: Served, tokens: Sequence[int], settings: Settings) -> None:
        """Queue the request; raise what is wrong with it."""
        served.underway.add(self)

        def hear(event: Event) -> None:
            if isinstance(event, Result) and not settings.ahead:
                served.note(event)
            self.note(event)

        submit = partial(served.runtime.submit, tokens, settings, hear)
        slow = settings.grammar or settings.prediction or settings.banned_strings
        quick = not slow and len(tokens) < LONG_PROMPT
        if quick:
            self.job = submit()
            return
        submitting = asyncio.ensure_future(asyncio.to_thread(submit))
        try:
            self.job = await asyncio.shield(submitting)
        except asyncio.CancelledError:
            submitting.add_done_callback(_drop)
            raise

    def cancel(self) -> None:
        """Free its slot after the current round."""
        if self.job is not None:
            self.job.cancelled = True

    def note(self, event: Event) -> None:
        """Pass an event on to the event loop; runs on the models' thread."""
        if isinstance(event, Result | Exception):
            self._ended = True
        self._inbox.put(self._number, event)

    def start(self, now: float) -> None:
        """Start the clock of its limit."""
        self._heard, self._end = now, now + self._limit.seconds

    def hear(self, now: float) -> None:
        """Note that the client got something of the reply."""
        self._heard, self._quiet = now, QUIET_SECONDS

    @property
    def due(self) -> float:
        """Return when to check it again."""
        return math.inf if self._ended else min(self._end, self._heard + self._quiet)

    def look(self, now: float) -> None:
        """End a reply that takes too long, and yield a sign of life for a silent one."""
        if self._ended:
            return
        if now >= self._end:
            self._cut()
        elif now >= self._heard + self._quiet:
            self._heard = now
            self._inbox.put(self._number, None)

    def _cut(self) -> None:
        self.cancel()
        self._end = self._heard = math.inf
        if not self._limit.cuts:
            self._ended = True
            message = f"the reply took longer than {self._limit.seconds:g} s, which is the limit"
            self._inbox.put(self._number, Refused(Fault(504, message, code="timeout")))


class Watch:
    """One timer for all replies of a request.

    It is not moved whenever something comes: when it is early, it looks and waits again.
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchanges = exchanges
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        return self._loop.time()

    def start(self, exchange: Exchange) -> None:
        exchange.start(self.now())
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self.stop()
        due = min(exchange.due for exchange in self._exchanges)
        self._timer = self._loop.call_at(due, self._look) if due < math.inf else None

    def _look(self) -> None:
        now = self.now()
        for exchange in self._exchanges:
            exchange.look(now)
        self._wait()


def _drop(submitting: asyncio.Future[Job]) -> None:
    """Cancel a request whose client went away while it was checked."""
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancelled = True

"""The thread that owns the models, and the streams that other threads read."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from localspec.base.errors import BackendError, LocalSpecError, reported
from localspec.base.tokens import Tokens
from localspec.core.prefix_cache.slots import Slots
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Chunk, Event, Job, Listener, Result
from localspec.core.requests.settings import Settings

T = TypeVar("T")

IDLE_SECONDS = 1.0  # seconds between two calls of `idle` while an engine without requests waits


class Worker:
    """Runs the engine while there are requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="localspec", daemon=True)
        self._thread.start()

    def submit(self, prompt: Tokens, settings: Settings, listener: Listener) -> Job:
        """Queue a request, from any thread. Raises UsageError if it cannot be met.

        The listener is called on the models' thread, and must not take long.
        """
        job = self._engine.prepare(prompt, settings, listener)
        with self._lock:
            self._require_open()
            self._inbox.put(partial(self._engine.add, job))
        return job

    def check(self, prompt: Tokens, settings: Settings) -> None:
        """Check a request as `submit` does, without running it."""
        self._engine.prepare(prompt, settings, lambda _: None)

    def call(self, work: Callable[[Slots], T]) -> T:
        """Do something with the slots, on the models' thread between two rounds; any thread may."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work(self._engine.slots))
            except Exception as error:
                done.set_exception(error)

        with self._lock:
            self._require_open()
            self._inbox.put(run)
        return done.result()

    def _require_open(self) -> None:
        if self._closed:
            raise LocalSpecError("this model was closed; load it again")

    def close(self) -> None:
        """End every request and the thread; safe to call twice."""
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._collect():
                self._step()
        finally:  # whatever ended the thread, no request may go on waiting for it
            with self._lock:
                self._closed = True
            while not self._inbox.empty():
                if work := self._inbox.get():
                    work()
            self._engine.fail(BackendError("the model was closed before the reply was complete"))

    def _step(self) -> None:
        try:
            self._engine.step(self._hurried)
        except Exception as error:  # a defect, ours or a plug-in's: the requests must hear of it
            self._engine.fail(reported(error))

    def _hurried(self) -> bool:
        return not self._inbox.empty()

    def _collect(self) -> bool:
        """Take in new requests, waiting for one if there is nothing to do; False: closed."""
        if not self._engine.busy and self._inbox.empty():
            self._engine.rest()
        while True:
            try:
                timeout = IDLE_SECONDS if self._engine.waits else None
                work = self._inbox.get(not self._engine.busy, timeout)
            except queue.Empty:
                if self._engine.busy:
                    return True
                self._engine.idle()
                continue
            if work is None:
                return False
            work()


Reads = Callable[[Event], Sequence[Event]]


def as_it_is(event: Event) -> Sequence[Event]:
    return (event,)


@dataclass(slots=True, eq=False)
class Events:
    """The events of one reply between the models' thread and whoever reads them."""

    queue: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)
    bell: Callable[[], object] = lambda: None

    def put(self, event: Event) -> None:
        self.queue.put(event)
        self.bell()


class Stream:
    """A reply as it comes: iterate for chunks, then read `result`.

    Leaving the loop early cancels the reply, as does `cancel`, which any thread may call.
    """

    def __init__(self, job: Job, events: Events, owner: object, reads: Reads = as_it_is) -> None:
        self._job = job
        self._owner = owner
        self._events = events
        self._reads = reads  # what came from the model, for what goes to the caller
        self._end: Result | Exception | None = None

    def __iter__(self) -> Iterator[Chunk]:
        try:
            while self._end is None:
                yield from self._next()
        finally:
            self.cancel()
        if isinstance(self._end, Exception):
            raise self._end

    def ready(self) -> Iterator[Chunk]:
        """Yield the chunks that are there, without waiting for more."""
        while not self._events.queue.empty():
            yield from self._next()

    def ring(self, bell: Callable[[], object]) -> None:
        """Have a function called, on the models' thread, whenever something has come."""
        self._events.bell = bell
        bell()

    @property
    def is_over(self) -> bool:
        """Whether `result` needs no waiting."""
        return self._end is not None

    def _next(self) -> Iterator[Chunk]:
        for event in self._reads(self._events.queue.get()):
            if isinstance(event, Chunk):
                yield event
            else:
                self._end = event

    def cancel(self) -> None:
        """Stop after the current round; the text until then stays."""
        self._job.cancelled = True

    @property
    def result(self) -> Result:
        """The whole reply, waiting for it if need be."""
        while self._end is None:
            for _ in self._next():
                pass
        if isinstance(self._end, Exception):
            raise self._end
        return self._end

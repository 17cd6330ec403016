"""The thread that owns a model of whole texts, and packs the texts of all requests in batches."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from localspec.base.errors import BackendError, LocalSpecError, reported
from localspec.base.tokens import Tokens, Vectors
from localspec.interfaces.abilities import RestingModel
from localspec.interfaces.vector_model import VectorModel

Done = Callable[[Vectors | Exception], None]
CLOSED = "this model was closed; load it again"


class Reading:
    """The texts of one request, and the rows of those that were read."""

    def __init__(self, texts: Sequence[Tokens], dimensions: int, done: Done) -> None:
        self.texts = texts
        self.rows = np.empty((len(texts), dimensions), np.float32)
        self.taken = 0  # texts that are in a batch, or were
        self.read = 0
        self.cancelled = False  # any thread may set it; looked at between batches
        self._done = done

    @property
    def next(self) -> Tokens:
        return self.texts[self.taken]

    @property
    def waits(self) -> bool:
        return not self.cancelled and self.taken < len(self.texts)

    def cancel(self) -> None:
        """Read no more of it."""
        self.cancelled = True

    def note(self, at: int, row: Vectors) -> None:
        self.rows[at] = row
        self.read += 1
        if self.read == len(self.texts):
            self._done(self.rows)

    def fail(self, error: Exception) -> None:
        """End with an error, once."""
        if not self.cancelled:
            self.cancelled = True
            self._done(error)


def next_batch(
    waiting: deque[Reading], most_tokens: int, most_texts: int
) -> list[tuple[Reading, int]]:
    """Take a text of each request in turn, as many as fit in a batch; the first always does."""
    batch: list[tuple[Reading, int]] = []
    left = most_tokens
    while waiting and len(batch) < most_texts:
        reading = waiting[0]
        if not reading.waits:
            waiting.popleft()
            continue
        if batch and len(reading.next) > left:
            break
        left -= len(reading.next)
        batch.append((reading, reading.taken))
        reading.taken += 1
        waiting.rotate(-1)
    return batch


class VectorWorker:
    """Reads texts while there are any."""

    def __init__(self, model: VectorModel) -> None:
        self._model = model
        self._inbox: queue.SimpleQueue[Reading | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="localspec-vectors", daemon=True)
        self._thread.start()

    def submit(self, texts: Sequence[Tokens], done: Done) -> Reading:
        """Queue the texts of a request; `done` hears on the model's thread how it ended."""
        reading = Reading(texts, self._model.dimensions, done)
        with self._lock:
            if self._closed:
                raise LocalSpecError(CLOSED)
            self._inbox.put(reading)
        return reading

    def close(self) -> None:
        """End every request and the thread, and free the model; safe to call twice."""
        self._inbox.put(None)
        self._thread.join()
        self._model.close()

    def _run(self) -> None:
        waiting: deque[Reading] = deque()
        try:
            while self._collect(waiting):
                self._read(next_batch(waiting, self._model.batch, self._model.texts))
        finally:
            with self._lock:
                self._closed = True
            while not self._inbox.empty():
                if late := self._inbox.get():
                    waiting.append(late)
            for reading in waiting:
                reading.fail(BackendError("the model was closed before all texts were read"))

    def _collect(self, waiting: deque[Reading]) -> bool:
        """Take in new requests, waiting for one if there is nothing to do; False: closed."""
        resting = self._model if isinstance(self._model, RestingModel) else None
        if resting and not waiting and self._inbox.empty():
            resting.rest()
        while not waiting or not self._inbox.empty():
            reading = self._inbox.get()
            if reading is None:
                return False
            waiting.append(reading)
        return True

    def _read(self, batch: Sequence[tuple[Reading, int]]) -> None:
        if not batch:
            return
        try:
            rows = self._model.read([reading.texts[at] for reading, at in batch])
        except Exception as error:  # whatever is wrong with these texts, the others go on
            for reading, _ in batch:
                reading.fail(reported(error))
            return
        for (reading, at), row in zip(batch, rows, strict=True):
            reading.note(at, row)

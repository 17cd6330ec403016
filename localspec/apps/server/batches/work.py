"""The work on batches: one after the other, while nobody else waits for an answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import filelock
from starlette.types import ASGIApp

from localspec.apps.server.batches.answering import answer_all, ask
from localspec.apps.server.batches.lines import (
    EMBEDDINGS,
    BatchRequest,
    answer_line,
    answered_in,
    numbered_lines,
    request_of,
)
from localspec.apps.server.batches.store import Batch, BatchStore, described_error
from localspec.apps.server.faults import Fault, Refused, fault_of
from localspec.apps.server.model_host import OF_BATCH, ModelHost
from localspec.apps.server.offers import ServedOffer
from localspec.base.errors import LocalSpecError, UsageError

MAX_STARTS = 3  # of servers that end before one more answer has come
UNUSED_SECONDS = 60  # after which a model may make room for that of a batch

log = logging.getLogger("localspec.server")


class BatchCancelled(Exception):
    """Raised where a batch is not to go on."""


class BatchWork:
    """Belongs to the event loop. The folder is opened once somebody needs it."""

    def __init__(self, host: ModelHost, folder: Path, most_bytes: int, owners: Set[str]) -> None:
        self._host, self._owners = host, owners
        self._folder, self._most_bytes = folder, most_bytes
        self._store: BatchStore | None = None
        self._current: Batch | None = None
        self._opening = asyncio.Lock()
        self._news = asyncio.Event()

    async def store(self) -> BatchStore:
        """Open the folder; refuse the request where another server has it."""
        async with self._opening:
            if self._store is None:
                try:
                    opening = asyncio.to_thread(BatchStore, self._folder, self._most_bytes)
                    self._store = await opening
                except (OSError, UsageError, filelock.Timeout) as error:
                    log.warning("batches cannot be kept in %s: %s", self._folder, error)
                    message = "another server has the folder of batches, or it cannot be written"
                    raise Refused(Fault(503, f"{message}: see this one's log")) from error
            return self._store

    def wake(self) -> None:
        """Have it look for work: there is a new batch."""
        self._news.set()

    def cancel(self, store: BatchStore, batch: Batch) -> None:
        """Have a batch end, at once if it has not begun; what is answered already is kept."""
        if self._current is not batch:
            store.end(batch, "cancelled")
        elif batch.status != "cancelling":
            batch.become("cancelling")
            store.keep(batch)

    def offer(self, endpoint: str, model: str) -> ServedOffer:
        """Return the model that answers the requests of a batch."""
        return self._host.offers.answering(model, "embedding" if endpoint == EMBEDDINGS else "text")

    async def run(self, app: ASGIApp) -> None:
        """Answer batches, for as long as the server runs."""
        if self._folder.exists():
            with suppress(Refused):
                await self.store()
        while True:
            batches = self._store.batches.values() if self._store else ()
            batch = next((batch for batch in batches if self._is_ours(batch)), None)
            if self._store and batch:
                await self._finish(app, self._store, batch)
            else:
                self._news.clear()
                await self._news.wait()

    def _is_ours(self, batch: Batch) -> bool:
        """Return whether there is work left, for a key and by the model that were there before."""
        if not batch.is_open or batch.owner not in self._owners:
            return False
        try:
            return self.offer(batch.endpoint, batch.model).name == batch.served
        except (Refused, LocalSpecError):
            return False

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    async def _finish(self, app: ASGIApp, store: BatchStore, batch: Batch) -> None:
        """Work on a batch until it has ended."""
        self._current = batch
        try:
            await self._work_on(app, store, batch)
            status = "completed"
        except BatchCancelled:
            status = "cancelled"
        except Exception as error:
            log.error("%s failed: %s", batch.id, error, exc_info=True)
            status = "failed"
            batch.errors.append(described_error("batch_failed", fault_of(error).message))
        try:
            store.end(batch, status)
        except OSError as error:  # as of a full disk; it goes on after the next start
            log.error("the end of %s could not be written: %s", batch.id, error)
            batch.become(status)
        self._current = None

    async def _work_on(self, app: ASGIApp, store: BatchStore, batch: Batch) -> None:
        names = [store.content(id) for id in (batch.answers, batch.refusals)]
        done, refused = [await asyncio.to_thread(answered_in, name) for name in names]
        requests = unanswered(store.content(batch.input_file_id), batch.endpoint, done | refused)
        began = False

        async def ask_behind(request: BatchRequest) -> tuple[int, dict[str, Any]]:
            OF_BATCH.set(True)
            return await ask(app, batch.owner, request)

        def most(under_way: int) -> int:
            nonlocal began
            if batch.status != "in_progress":
                raise BatchCancelled
            allowed = self.allowance(batch, under_way)
            if allowed and not began:
                began = True
                count_start(store, batch)
            return allowed

        with names[0].open("ab") as answers, names[1].open("ab") as refusals:

            def note(request: BatchRequest, status: int, body: Mapping[str, Any]) -> None:
                is_refused = status >= 400
                append(refusals if is_refused else answers, answer_line(request, status, body))
                batch.failed += is_refused
                batch.completed += not is_refused
                if batch.starts:
                    batch.starts = 0
                    store.keep(batch)

            await answer_all(requests, ask_behind, most, note)

    def allowance(self, batch: Batch, under_way: int) -> int:
        """Return how many requests of a batch may be under way, where so many are."""
        host = self._host
        if host.lacks_memory:
            return 0
        loaded = list(host.loaded.values())
        others = [served for served in loaded if served.users > served.batched]
        if any(served.waiting and served.batched for served in others):
            return max(under_way - 1, 0)
        if others or host.is_loading_other(batch.served):
            return under_way
        if batch.served not in host.loaded:
            late = time.monotonic() - UNUSED_SECONDS
            return 0 if any(served.used > late for served in loaded) else 1
        return max(host.loaded[batch.served].resident.slots - 1, 1)  # one stays free for others


def count_start(store: BatchStore, batch: Batch) -> None:
    """Note that a server begins with a batch; raise an error where that ended several."""
    if batch.starts >= MAX_STARTS:
        ended = f"the server ended {MAX_STARTS} times before one more answer came"
        raise Refused(Fault(500, ended))
    batch.starts += 1
    store.keep(batch)


def unanswered(file: Path, endpoint: str, done: Set[str]) -> Iterator[BatchRequest]:
    """Yield the requests of a file that have no answer yet."""
    for number, line in numbered_lines(file):
        request = request_of(line, number, endpoint)
        if request.id not in done:
            yield request


def append(file: BinaryIO, line: bytes) -> None:
    """Append a line at once: what is written stays if the process dies."""
    file.write(line)
    file.flush()

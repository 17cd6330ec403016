"""The host of the models: loads them on request, unloads them for memory or after a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Set
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Literal

from localspec.apps.server.faults import overloaded
from localspec.apps.server.kinds import takes_none
from localspec.apps.server.model_events import ModelEvents
from localspec.apps.server.model_facts import UNREAD, ModelFacts, facts
from localspec.apps.server.offers import Offers, ServedOffer
from localspec.apps.server.replies.bell import Bell
from localspec.apps.server.served import Served, media_of
from localspec.base.errors import DoesNotFit, LocalSpecError, OutOfMemory
from localspec.core.requests.job import Result
from localspec.interfaces.footprint import Kind
from localspec.interfaces.media import Kind as MediaKind
from localspec.running.runtime.phases import Phase, TellPhase

State = Literal["unloaded", "loading", "loaded"]
STATUS = "model_status"
TIDY_SECONDS = 1.0  # at most, between two looks for models to unload
LOOK_SECONDS = 0.05  # between two looks for a model that batches have left
OF_BATCH = ContextVar("of_batch", default=False)  # whether a lease is for a request of a batch


class ModelHost:
    """The served models. Belongs to the event loop; only loading uses other threads."""

    def __init__(
        self,
        offers: Offers,
        note: Callable[[str, Result], None],
        *,
        waiting: int = 64,
        idle_seconds: float | None = None,
    ) -> None:
        self.offers = offers
        self.loaded: dict[str, Served] = {}
        self.failed: dict[str, str] = {}  # why the last attempt to load a model failed
        self.events = ModelEvents()
        self._note = note
        self._most_waiting = waiting  # requests of each model, beside those in its slots
        self._idle_seconds = idle_seconds
        self._kept: dict[str, float] = {}  # the idle times that clients asked for, by model
        self.lacks_memory = False  # for a model that others ask for than batches
        self._lock = asyncio.Lock()  # one loads or leaves at a time
        self._made_bell: Bell | None = None  # made when the first thread of a model is to ring it
        self._loading: set[str] = set()  # models that are being loaded, or wait for it
        self._facts: dict[str, ModelFacts] = {}
        self._background: set[asyncio.Task[None]] = set()  # that no request waits for

    def add(self, offer: ServedOffer) -> None:
        """Serve another model, or one in place of another of its name; a loaded one stays."""
        self.offers[offer.name] = offer
        self._facts.pop(offer.name, None)
        self.events.publish("*", "models_reload")

    def remove(self, name: str) -> None:
        """Stop serving a model that is not loaded."""
        if self.offers.pop(name, None):
            self._facts.pop(name, None)
            self._kept.pop(name, None)
            self.failed.pop(name, None)
            self.events.publish(name, "model_remove")

    def require_media(self, name: str, kinds: Set[MediaKind]) -> None:
        """Refuse pictures and sounds that the model which answers for a name does not take in."""
        offer = self.offers.answering(name)
        if not self._takes(offer, kinds):
            others = (o.name for o in self.offers.of_kind("text") if self._takes(o, kinds))
            raise takes_none(offer.name, self.media_of(offer), kinds, next(others, ""))

    def _takes(self, offer: ServedOffer, kinds: Set[MediaKind]) -> bool:
        """Return whether a model takes in these kinds, and any where there are none."""
        able = self.media_of(offer)
        return bool(able) and kinds <= able

    def media_of(self, offer: ServedOffer) -> frozenset[MediaKind]:
        return media_of(offer, self.loaded.get(offer.name))

    @asynccontextmanager
    async def lease(
        self, name: str, places: int = 1, kind: Kind | None = "text"
    ) -> AsyncIterator[Served]:
        """Hold a model of a kind, loaded if need be, until the request has ended."""
        offer = self.offers.answering(name, kind)
        served = self.loaded.get(offer.name)
        if served is None:
            served = await self._loaded(offer)
        served.leaving = False
        most = served.resident.slots + self._most_waiting
        if served.users + places > most:
            raise overloaded(f"{served.users} requests are under way or wait; {most} may")
        batched = places if OF_BATCH.get() else 0
        served.users += places
        served.batched += batched
        try:
            yield served
        finally:
            served.users -= places
            served.batched -= batched
            served.used = time.monotonic()
            if served.leaving and not served.users:
                self.work(self._unload(served))

    async def _loaded(self, offer: ServedOffer) -> Served:
        self._loading.add(offer.name)
        try:
            async with self._lock:
                return self.loaded.get(offer.name) or await self._load(offer)
        finally:
            self._loading.discard(offer.name)

    async def facts(self, name: str) -> ModelFacts:
        """Read a model's facts, without loading it."""
        offer = self.offers.named(name)
        if offer.name not in self._facts:
            served = self.loaded.get(offer.name)
            try:
                self._facts[offer.name] = await asyncio.to_thread(_facts, offer, served)
            except LocalSpecError:  # its files are gone or broken, which loading reports
                return UNREAD
        return self._facts[offer.name]

    def state(self, name: str) -> State:
        if name in self.loaded:
            return "loaded"
        return "loading" if name in self._loading else "unloaded"

    def is_loading_other(self, name: str) -> bool:
        return bool(self._loading - {name})

    def begin_loading(self, name: str) -> None:
        """Begin to load a model; events report how it goes."""
        self.work(self._attempt(self.offers.named(name).name))

    async def _attempt(self, name: str) -> None:
        with suppress(Exception):  # an event reports it
            await self.preload(name)

    def work(self, work: Coroutine[None, None, None]) -> None:
        """Run a task that no request waits for; the end of the server cancels it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def unload(self, name: str) -> int:
        """Free a model's memory, now or when its requests have ended; return how many those are.

        A request for it that comes meanwhile keeps it.
        """
        name = self.offers.named(name).name
        if name in self._loading:
            async with self._lock:
                pass
        served = self.loaded.get(name)
        if served is None:
            return 0
        served.leaving = True
        if not served.users:
            await self._unload(served)
        return served.users

    async def _unload(self, served: Served) -> None:
        async with self._lock:
            if self.loaded.get(served.name) is served and not served.users and served.leaving:
                await self._leave(served)

    async def preload(self, name: str) -> None:
        async with self.lease(name, kind=None):
            pass

    @property
    def _bell(self) -> Bell:
        if self._made_bell is None:
            self._made_bell = Bell()
        return self._made_bell

    async def _load(self, offer: ServedOffer) -> Served:
        self.events.publish(offer.name, STATUS, {"status": "loading"})
        try:
            served = await self._open(offer)
        except Exception as error:
            self.failed[offer.name] = str(error)
            self.events.publish(offer.name, STATUS, {"status": "unloaded", "exit_code": 1})
            raise
        self.failed.pop(offer.name, None)
        self.events.publish(offer.name, STATUS, {"status": "loaded"})
        return served

    def _tells_of(self, offer: ServedOffer) -> TellPhase:
        """Publish how far a load is, as llama.cpp's server does; any thread may report."""
        loop, last = asyncio.get_running_loop(), ("", -1)
        stages = ["text_model", *(["spec_model"] if offer.drafter else [])]

        def tell(phase: Phase) -> None:
            nonlocal last
            stage = stages[-1] if phase.file == offer.drafter else stages[0]
            if phase.name != "reading" or phase.share is None:
                return
            if last != (last := (stage, int(100 * phase.share))):
                progress = {"stages": stages, "current": stage, "value": phase.share}
                status = {"status": "loading", "progress": progress}
                loop.call_soon_threadsafe(self.events.publish, offer.name, STATUS, status)

        return tell

    async def _open(self, offer: ServedOffer) -> Served:
        while True:
            try:
                resident = await asyncio.to_thread(offer.load, self._tells_of(offer))
                break
            except (DoesNotFit, OutOfMemory):
                if not await self._make_room():
                    raise
        served = self.loaded[offer.name] = Served(
            offer, resident, partial(self._note, offer.name), self._bell
        )
        return served

    @asynccontextmanager
    async def unchanged(self, name: str) -> AsyncIterator[Served | None]:
        """Let a model stay loaded, if it is; whatever is to be loaded or to leave waits."""
        async with self._lock:
            yield self.loaded.get(name)

    @asynccontextmanager
    async def set_aside(self, name: str) -> AsyncIterator[None]:
        """Keep an idle model out of memory; whatever has to be loaded meanwhile waits."""
        async with self._lock:
            served = self.loaded.get(name)
            if served is not None and served.users:
                raise overloaded(f"{name} answers {served.users} requests")
            if served is not None:
                await self._leave(served)
            yield

    async def _make_room(self) -> bool:
        """Unload the idle model that was unused for longest, or one that only batches use."""
        try:
            while True:
                leaving = [s for s in self.loaded.values() if not s.offer.pinned]
                if idle := [served for served in leaving if not served.users]:
                    break
                if not any(served.users == served.batched for served in leaving):
                    return False
                self.lacks_memory = True
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self.lacks_memory = False
        await self._leave(min(idle, key=lambda served: served.used))
        return True

    async def _leave(self, served: Served) -> None:
        del self.loaded[served.name]
        await asyncio.to_thread(served.resident.close)
        self.events.publish(served.name, STATUS, {"status": "unloaded", "exit_code": 0})

    async def tidy(self) -> None:
        """Unload models that were unused for a long time, for as long as the server runs."""
        while True:
            idle_times = map(self.idle_seconds, self.loaded.values())
            quarter = min(idle_times, default=math.inf) / 4
            await asyncio.sleep(min(max(quarter, LOOK_SECONDS / 2), TIDY_SECONDS))
            async with self._lock:
                for served in [served for served in self.loaded.values() if not served.users]:
                    if time.monotonic() - served.used > self.idle_seconds(served):
                        await self._leave(served)

    def keep(self, name: str, seconds: float) -> None:
        """Note after how many seconds without use a client wants a model to be unloaded."""
        self._kept[name] = seconds

    def idle_seconds(self, served: Served) -> float:
        """Return after how many seconds without use a model is unloaded; infinity: it is not."""
        offer = served.offer
        if offer.pinned:
            return math.inf
        idle = self._idle_seconds if offer.idle_seconds is None else offer.idle_seconds
        return self._kept.get(offer.name, math.inf if idle is None else idle)

    async def close(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        async with self._lock:
            for served in list(self.loaded.values()):
                await self._leave(served)
        if self._made_bell is not None:  # and the models' threads, which ring it, have ended
            self._made_bell.close()
            self._made_bell = None


def _facts(offer: ServedOffer, served: Served | None) -> ModelFacts:
    if served is not None:
        return facts(served.resident.tokenizer)
    with offer.vocabulary() as tokenizer:
        return facts(tokenizer)

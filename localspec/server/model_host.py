"""The host of the models: loads them on request, unloads them for memory or after a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Literal, Protocol, cast
from weakref import WeakSet

from localspec.backend import Footprint
from localspec.engine.job import Job, Result
from localspec.errors import DoesNotFit, LocalSpecError, OutOfMemory, UnknownModel
from localspec.runtime.phases import Phase, TellPhase
from localspec.runtime.runtime import Runtime
from localspec.runtime.vector_runtime import VectorRuntime
from localspec.sampling.parameters import Sampling
from localspec.server.faults import overloaded
from localspec.server.kinds import Resident, nothing_for, wrong_kind
from localspec.server.model_events import ModelEvents
from localspec.server.model_facts import UNREAD, ModelFacts, facts
from localspec.server.offered_adapters import OfferedAdapters
from localspec.server.replies.bell import Bell
from localspec.tokenizer import Tokenizer
from localspec.vector_model import Kind

Load = Callable[[TellPhase], Resident]
State = Literal["unloaded", "loading", "loaded"]
STATUS = "model_status"


@dataclass(frozen=True, slots=True)
class ServedOffer:
    """A model that clients can ask for."""

    name: str
    load: Load
    vocabulary: Callable[[], AbstractContextManager[Tokenizer]]  # without the weights
    usual: Sampling  # as its makers recommend
    engine: str
    format: str  # of its files
    drafter: str = ""
    context: int = 0  # expected, before it is loaded
    aliases: tuple[str, ...] = ()  # other names for it
    created: int = 0
    bytes: int = 0  # of its weights
    digest: str = ""
    family: str = ""
    quantisation: str = ""
    slots: int = 1
    path: str = ""
    parameters: str = ""  # how many, as its makers write it
    footprint: Footprint | None = None  # what the headers of its files say
    reasoning_budget: int = -1  # tokens of thought, where a request leaves that open; -1: no limit
    reasoning_budget_message: str = ""  # that ends a thought whose budget is spent
    adapters: OfferedAdapters = field(default_factory=OfferedAdapters)
    bench: tuple[str, ...] = ()  # how `localspec bench` is called for it; empty: not from here

    def answers_to(self, name: str) -> bool:
        return name in self.aliases or name in self.adapters.names

    @property
    def kind(self) -> Kind:
        """Return what it does."""
        return self.footprint.kind if self.footprint else "text"


class Underway(Protocol):
    """A reply that a model works on."""

    @property
    def job(self) -> Job | None: ...

    @property
    def over(self) -> bool: ...


@dataclass(slots=True, eq=False)
class Served:
    """A model that is loaded, and its users."""

    offer: ServedOffer
    resident: Resident
    note: Callable[[Result], None]  # of each reply, on the models' thread
    bell: Bell  # by which that thread wakes the event loop
    users: int = 0  # requests that hold or wait for a slot
    used: float = field(default_factory=time.monotonic)
    leaving: bool = False  # whether it is unloaded once nobody uses it
    underway: WeakSet[Underway] = field(default_factory=WeakSet)  # and replies that just ended

    @property
    def name(self) -> str:
        return self.offer.name

    @property
    def runtime(self) -> Runtime:
        """The model, which continues text: leases are of the kind that was asked for."""
        assert self.offer.kind == "text"
        return cast(Runtime, self.resident)

    @property
    def vectors(self) -> VectorRuntime:
        """The model, which reads whole texts."""
        assert self.offer.kind != "text"
        return cast(VectorRuntime, self.resident)

    @property
    def jobs(self) -> list[Job]:
        """The replies that it works on, or that wait for a slot."""
        return [reply.job for reply in self.underway if reply.job and not reply.over]

    @property
    def busy(self) -> int:
        """The number of slots in use."""
        return min(self.users, self.resident.slots)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return self.users - self.busy


class ModelHost:
    """The served models. Belongs to the event loop; only loading uses other threads."""

    def __init__(
        self,
        offers: Mapping[str, ServedOffer],
        note: Callable[[str, Result], None],
        *,
        waiting: int = 64,
        idle_seconds: float | None = None,
        strict: bool = False,
    ) -> None:
        self.offers = dict(offers)
        self._strict = strict
        self.loaded: dict[str, Served] = {}
        self.failed: dict[str, str] = {}  # why the last attempt to load a model failed
        self.events = ModelEvents()
        self._note = note
        self._waiting = waiting
        self.idle_seconds = idle_seconds
        self._lock = asyncio.Lock()  # one loads or leaves at a time
        self._rung: Bell | None = None
        self._loading: set[str] = set()  # models that are loaded, or wait for it
        self._facts: dict[str, ModelFacts] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # that no request waits for

    @property
    def names(self) -> list[str]:
        return list(self.offers)

    def knows(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> ServedOffer | None:
        short = name.removesuffix(":latest")
        others = (offer for offer in self.offers.values() if not name or offer.answers_to(short))
        return self.offers.get(name) or self.offers.get(short) or next(others, None)

    def offer(self, name: str) -> ServedOffer:
        """Find an offer by name; an empty name is the first, and `:latest` is ignored."""
        offer = self._find(name)
        if offer is None:
            near = get_close_matches(name, self.names, n=1)
            served = f"did you mean {near[0]}?" if near else f"served: {', '.join(self.names)}"
            raise UnknownModel(f"there is no model {name[:200]!r} here; {served}")
        return offer

    def add(self, offer: ServedOffer) -> None:
        """Serve another model, or one in place of another of its name; a loaded one stays."""
        self.offers[offer.name] = offer
        self._facts.pop(offer.name, None)
        self.events.publish("*", "models_reload")

    def remove(self, name: str) -> None:
        """Stop serving a model that is not loaded."""
        if self.offers.pop(name, None):
            self._facts.pop(name, None)
            self.failed.pop(name, None)
            self.events.publish(name, "model_remove")

    def offer_answering(self, name: str, kind: Kind | None = "text") -> ServedOffer:
        """Return the offer that answers for a name: the first of a kind, where it is unknown.

        A model of another kind is refused; of no kind, any will do.
        """
        able = self.of_kind(kind)
        named = self._find(name) if name else None
        if named is None:
            if kind and self.offers and not able:
                raise nothing_for(kind)
            return able[0] if able and not (name and self._strict) else self.offer(name)
        if kind not in (None, named.kind):
            raise wrong_kind(named.name, named.kind, kind, able[0].name if able else "")
        return named

    def of_kind(self, kind: Kind | None) -> list[ServedOffer]:
        return [offer for offer in self.offers.values() if kind in (None, offer.kind)]

    def is_unknown(self, name: str, kind: Kind) -> bool:
        """Return whether another model than the named one answers, though there are several."""
        return len(self.of_kind(kind)) > 1 and not self.knows(name)

    def offer_meant_by(self, name: str) -> ServedOffer:
        """Return the offer that a name means: the only one, whatever the name."""
        return self.offer("" if len(self.offers) == 1 and not self._strict else name)

    @asynccontextmanager
    async def lease(
        self, name: str, places: int = 1, kind: Kind | None = "text"
    ) -> AsyncIterator[Served]:
        """Hold a model of a kind, loaded if need be, until the request has ended."""
        offer = self.offer_answering(name, kind)
        served = self.loaded.get(offer.name)
        if served is None:
            served = await self._loaded(offer)
        served.leaving = False
        most = served.resident.slots + self._waiting
        if served.users + places > most:
            raise overloaded(f"{served.users} requests are under way or wait; {most} may")
        served.users += places
        try:
            yield served
        finally:
            served.users -= places
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
        offer = self.offer(name)
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

    def begin_loading(self, name: str) -> None:
        """Begin to load a model; events report how it goes."""
        self.work(self._attempt(self.offer(name).name))

    async def _attempt(self, name: str) -> None:
        with suppress(Exception):  # an event reports it
            await self.preload(name)

    def work(self, work: Coroutine[None, None, None]) -> None:
        """Run a task that no request waits for; the end of the server cancels it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def unload(self, name: str) -> int:
        """Free a model's memory, now or when its requests have ended; return how many those are.

        A request for it that comes meanwhile keeps it.
        """
        name = self.offer(name).name
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
        if self._rung is None:
            self._rung = Bell()
        return self._rung

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
        """Publish how far a load is, as llama.cpp's server does; any thread may tell."""
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
        """Unload the idle model that was unused for longest."""
        idle = [served for served in self.loaded.values() if not served.users]
        if not idle:
            return False
        await self._leave(min(idle, key=lambda served: served.used))
        return True

    async def _leave(self, served: Served) -> None:
        del self.loaded[served.name]
        await asyncio.to_thread(served.resident.close)
        self.events.publish(served.name, STATUS, {"status": "unloaded", "exit_code": 0})

    async def tidy(self) -> None:
        """Unload models that were unused for a long time, for as long as the server runs."""
        while self.idle_seconds is not None:
            await asyncio.sleep(min(self.idle_seconds / 4, 30))
            async with self._lock:
                late = time.monotonic() - self.idle_seconds
                for served in [served for served in self.loaded.values() if not served.users]:
                    if served.used < late:
                        await self._leave(served)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._lock:
            for served in list(self.loaded.values()):
                await self._leave(served)
        if self._rung is not None:  # and the models' threads, which ring it, have ended
            self._rung.close()
            self._rung = None


def _facts(offer: ServedOffer, served: Served | None) -> ModelFacts:
    if served is not None:
        return facts(served.resident.tokenizer)
    with offer.vocabulary() as tokenizer:
        return facts(tokenizer)

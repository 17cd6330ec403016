"""The models that are here, and those to pull, as a list shows them: size, engine, state, speed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from localspec.base.errors import BackendError, DoesNotFit
from localspec.running.memory.machine import Machine, size
from localspec.running.memory.planner import Limits, machine_within
from localspec.running.models.engines import Engine, all_engines
from localspec.running.models.entry import Entry
from localspec.running.models.seen_devices import seen_devices
from localspec.running.models.sources import LocalFiles, Package
from localspec.running.models.stored_pair import PulledPair
from localspec.running.pulling.estimate import fitting, size_of_drafter
from localspec.running.pulling.pace import Pace, pace, speed_text

MISSING = "engine missing"
TOO_LARGE = "does not fit"


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A line of the list."""

    name: str
    weights: str
    bytes: int
    engine: str  # or the format, where no engine here takes it
    drafter: str
    drafter_bytes: int  # beside the model; 0: none, or it is not known
    state: str
    speed: str = ""  # to expect of it, in words
    projector_bytes: int = 0  # of the file by which it sees; 0: it reads text only

    def row(self) -> tuple[str, ...]:
        drafter = self.drafter + (f" {size(self.drafter_bytes)}" if self.drafter_bytes else "")
        projector = size(self.projector_bytes) if self.projector_bytes else ""
        state = f"{self.state}, {self.speed}" if self.speed else self.state
        return self.name, self.weights, size(self.bytes), self.engine, drafter, projector, state


def pulled_row(pulled: PulledPair) -> ListedModel:
    whole = all(model.whole for model in pulled.models)
    usable = pulled.engine in map(str, all_engines())
    place = f"in {pulled.owner}'s store" if pulled.owner else "here"
    state = "files are missing" if not whole else place if usable else MISSING
    return ListedModel(
        pulled.name,
        pulled.weights,
        pulled.bytes,
        pulled.engine,
        pulled.drafter,
        pulled.draft.bytes if pulled.draft else 0,
        state,
        projector_bytes=pulled.projector.bytes if pulled.projector else 0,
    )


def available_row(entry: Entry, backend: str) -> ListedModel:
    able = [engine for engine in all_engines() if engine.spec.format in entry.offers]
    if not able:
        kind, offer = next(iter(entry.offers.items()))
        weights, first = next(iter(offer.weights.items()))
        return ListedModel(entry.name, weights, first.bytes, kind, offer.drafter, 0, MISSING)
    engine = next((engine for engine in able if engine.name == backend), able[0])
    offer, memory = entry.offers[engine.spec.format], machine(engine)
    weights = next(iter(offer.weights))
    state, words = MISSING, ""
    origin = offer.weights[weights].source
    if isinstance(origin, Package):
        state = "comes with a package"
    elif isinstance(origin, LocalFiles):
        state = "your own file" if origin.path.exists() else "its file is missing"
    elif memory is not None:
        try:
            weights = fitting(entry, engine, "", memory)
            state = "fits"
            if entry.kind == "text":
                pace, count = paces(engine), offer.weights[weights].bytes
                words = speed_text(pace, pace.tokens_a_second(count, entry.active_share))
        except DoesNotFit:
            state = TOO_LARGE
    return ListedModel(
        entry.name,
        weights,
        offer.weights[weights].bytes,
        engine.name,
        offer.drafter,
        size_of_drafter(offer, engine),
        state,
        words,
        offer.projector_bytes,
    )


@cache
def paces(engine: Engine) -> Pace:
    return pace(engine, Limits(), seen_devices(engine))


@cache
def machine(engine: Engine) -> Machine | None:
    """Return the memory for an engine's models; None if the engine cannot be used."""
    try:
        return machine_within(seen_devices(engine), Limits())
    except BackendError:
        return None

"""The choice of a model where the command names none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import inf

from localspec.chat import session
from localspec.errors import LocalSpecError
from localspec.memory.machine import size
from localspec.memory.planner import planned, there
from localspec.models import store
from localspec.models.catalogue import choose, entries, offer_for
from localspec.models.engines import backend, specs
from localspec.models.entry import Entry
from localspec.models.locate import locate
from localspec.models.sources import Package
from localspec.pulling.estimate import fitting
from localspec.runtime.loaded_pair import PairFiles
from localspec.runtime.loading import Loading

STARTER = "smollm2-135m"
ON_CPU = 6 << 30  # bytes: some five tokens a second, where 30 GB are read in one


@dataclass(frozen=True, slots=True)
class Better:
    """A larger model that could be pulled, and fits."""

    name: str
    about: str


def chosen(loading: Loading) -> str:
    """Choose the last model, else the largest pulled one that fits; "" at the first start."""
    return last(loading) or largest(loading)


def last(loading: Loading) -> str:
    found, _ = session.last()
    return found.model if found and here(found.model, loading) else ""


def here(name: str, loading: Loading) -> bool:
    with suppress(LocalSpecError):
        locate(name, loading.backend)
        return True
    return False


def largest(loading: Loading) -> str:
    for pulled in sorted(store.everything(), key=lambda each: -each.bytes):
        name = f"{pulled.name}:{pulled.weights}"
        with suppress(LocalSpecError):
            with PairFiles.of(name, None, loading.backend).examined() as (target, draft):
                planned(target, draft, loading.options, loading.limits, insists=False)
            return name
    return ""


def better(loading: Loading) -> Better | None:
    """Find the largest model that can be pulled, fits, and is fast enough to talk to."""
    fits = [found for entry in entries().values() if (found := offer(entry, loading))]
    if not fits:
        return None
    count, name, about = max(fits)
    return Better(name, f"{about}, {size(count)}")


def most(engine: str, loading: Loading) -> float:
    """Bound the bytes of weights to what memory can read fast enough once per token."""
    if loading.limits.device != "cpu" and any(
        "gpu" in each.kind for each in backend(engine).probe()
    ):
        return inf
    return ON_CPU


def offer(entry: Entry, loading: Loading) -> tuple[int, str, str] | None:
    if "chat" not in entry.good_at:
        return None
    with suppress(LocalSpecError):
        engine = choose(entry, loading.backend, tuple(specs()))
        weights = fitting(entry, engine, "", there(engine, loading.limits))
        found = offer_for(entry, engine).weights[weights]
        pulls = not isinstance(found.source, Package)
        if pulls and found.bytes <= most(engine, loading):
            return found.bytes, entry.name, entry.about
    return None

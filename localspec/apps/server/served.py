"""A model that is loaded, for those who use it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast
from weakref import WeakSet

from localspec.apps.server.kinds import Resident
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.replies.bell import Bell
from localspec.core.requests.job import Job, Result
from localspec.interfaces.media import Kind as MediaKind
from localspec.running.runtime.runtime import Runtime
from localspec.running.runtime.vector_runtime import VectorRuntime


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
    batched: int = 0  # of these, requests of batches, which give way to others
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
        """The model, which reads whole texts, or does so too."""
        if self.offer.kind != "text":
            return cast(VectorRuntime, self.resident)
        assert self.runtime.vectors is not None
        return self.runtime.vectors

    @property
    def jobs(self) -> list[Job]:
        """The replies that it works on, or that wait for a slot."""
        return [reply.job for reply in self.underway if reply.job and not reply.over]

    @property
    def unused_seconds(self) -> float:
        return 0.0 if self.users else time.monotonic() - self.used

    @property
    def busy(self) -> int:
        """The number of slots in use."""
        return min(self.users, self.resident.slots)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return self.users - self.busy


def media_of(offer: ServedOffer, served: Served | None) -> frozenset[MediaKind]:
    """Return what a model takes in beside texts: as it was loaded, or else as its files say."""
    if served is None or offer.kind != "text":
        return offer.media
    return served.runtime.sight.kinds if served.runtime.sight else frozenset()

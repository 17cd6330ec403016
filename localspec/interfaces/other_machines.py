"""One model on several machines: groups that run it together, and workers that lend devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

MEMBERS = "LOCALSPEC_GROUP"  # in the environment of a group's leader: how many processes it has
WORKERS = "LOCALSPEC_WORKERS"  # in the environment: HOST:PORT,... of workers whose devices are used


class Group(NamedTuple):
    """Runs a model in a group of processes; without one, a model needs one process."""

    # The command that starts what follows it on these hosts, with so many processes on each, which
    # are connected by a link in the engine's own words; its usual one if empty.
    launcher: Callable[[Sequence[str], int, str], Sequence[str]]
    join: Callable[[], Member]  # makes each of those processes a member


class Member(Protocol):
    """One process of a group."""

    leads: bool  # whether it runs the command; the others follow
    size: int

    def follow(self) -> None:
        """Run the model with the leader until it ends."""

    def end(self) -> None:
        """End the group; the leader's part."""


class Worker(NamedTuple):
    """The devices of this machine that others are to use, and where."""

    host: str
    port: int  # 0: any
    device: str  # "auto", "cpu" or the number of a GPU
    memory: int | None  # most bytes to offer of each; None: what is free
    cache: Path | None  # where weights are kept, so that they are sent once; None: nowhere
    verbose: bool = False


class Link(NamedTuple):
    """The way to a worker, as it was measured."""

    worker: str  # HOST:PORT
    trip_seconds: float  # there and back
    bytes_a_second: float

    def __str__(self) -> str:
        trip, rate = f"{self.trip_seconds * 1e3:.2f} ms", f"{self.bytes_a_second / 1e6:,.0f} MB/s"
        return f"a trip to {self.worker} takes {trip}, {rate}"


class Workers(NamedTuple):
    """The way to lend devices to other machines, and to use theirs."""

    # Lets others use devices of this machine, until Ctrl-C; what is called hears when they can.
    serve: Callable[[Worker, Callable[[str], object]], None]
    links: Callable[[], Sequence[Link]]  # measures the links to the workers in use

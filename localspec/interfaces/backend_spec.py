"""The description of an engine, read before it is imported: format, models, installation.

The entry point `localspec.backends` names a module that has one as `SPEC`. All of them are read to
find out which engine takes a model, so this module must not import the engine's library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from localspec.base.model_files import files_of as files_of
from localspec.interfaces.media import Kind
from localspec.interfaces.observed_model import Observe
from localspec.interfaces.trained_head import TrainedHead

MEMBERS = "LOCALSPEC_GROUP"  # in the environment of a group's leader: how many processes it has
WORKERS = "LOCALSPEC_WORKERS"  # in the environment: HOST:PORT,... of workers whose devices are used


class Launch(NamedTuple):
    """The machines on which a group is to run a model together."""

    hosts: Sequence[str]
    processes: int = 1  # processes on each of them
    link: str = ""  # how they are connected, in the engine's own words; its usual one if empty


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


class Workers(Protocol):
    """Serves devices to other machines, and uses theirs: what an engine offers for it."""

    def serve(self, worker: Worker, tell: Callable[[str], object]) -> None:
        """Let others use devices of this machine, until Ctrl-C; `tell` hears when they can."""

    def links(self) -> Sequence[Link]:
        """Measure the links to the workers in use."""


class RemoteModel(NamedTuple):
    """A model among the files of a hub's repository."""

    name: str  # by which it is asked for, if there are several
    files: tuple[str, ...]  # all of it, in order
    # Or the kind of a drafter, as "mtp", or "projector"; anything else only lies beside it.
    role: str = "model"
    lacks: str = ""  # of its files, as "part 2 of 3"


class Projector(NamedTuple):
    """A file that turns pictures or sounds into the embeddings of a model."""

    path: Path
    kinds: frozenset[Kind]  # of media that it takes
    weight_bytes: int


class Projectors(NamedTuple):
    """The way to the projectors of an engine, which lie in files of their own."""

    # The one beside a model at a path; else why none is taken, "" where none lies there.
    find: Callable[[Path], Projector | str]
    describe: Callable[[Path], Projector]  # `UsageError` where a file is none
    # The one to download of a repository's projectors; None where they are not of one model.
    choose: Callable[[Sequence[RemoteModel]], RemoteModel | None]
    missing: Callable[[], str]  # what the installed library lacks for them, in words; "": nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about this machine, and the step that would improve it; none if all is well."""

    subject: str
    state: str
    step: str = ""


def deferred(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called: what it needs takes time to import."""
    return partial(_import_and_call, module, name)


def _import_and_call(module: str, name: str, *arguments: object) -> Any:
    return getattr(import_module(module), name)(*arguments)


def nothing(_: Sequence[str]) -> Iterable[Finding]:
    return ()


class Builder(NamedTuple):
    """The way to build an engine's library for this machine."""

    kinds: tuple[str, ...]  # that can be asked for, as "cuda"
    # Installs a kind, or for "" the one that fits here unless it is there; from source alone if
    # so advised. Returns a sentence on the result; `BackendError` if it failed.
    build: Callable[[str, bool], str]


class PublishedHead(NamedTuple):
    """A drafting head as it was published: a folder with weights and config.json."""

    folder: Path
    target: Path | None  # the folder of its model; None: the head is among the weights of `folder`
    kind: str = "auto"  # of the weights to write, in the converter's words
    python: str = ""  # that has what the converter imports; one is set up if empty


class PublishedAdapter(NamedTuple):
    """A LoRA adapter as PEFT saves it: a folder with weights and adapter_config.json."""

    folder: Path
    base: Path | None  # the folder of its model; None: the one that it names is fetched
    kind: str = "auto"  # of the weights to write, in the converter's words
    python: str = ""  # that has what the converter imports; one is set up if empty


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """An engine, described without its library."""

    # With the functions of `localspec.interfaces.backend.Backend`; imported when one is called.
    module: str
    format: str  # of its models: their table in a models.toml, as "gguf"
    kind: str  # one of its models in a sentence, as "a GGUF file"
    install: str  # the command that installs what `module` imports
    claims: Callable[[Path], bool]  # whether it takes a path, which need not exist: by its name
    folder: bool = False  # a model is a folder rather than a file
    # The models among the file names of a repository; None: each file that it claims is one.
    models: Callable[[Sequence[str]], Sequence[RemoteModel]] | None = None
    files: Callable[[Path], Sequence[Path]] = files_of  # of the model at a path
    header_bytes: tuple[int, ...] = ()  # at a file's start that mostly, then surely, hold a header
    packages: tuple[str, ...] = ()  # distributions whose versions decide what it computes
    tells_progress: bool = False  # `load` takes a third argument, and reports the share it read
    scales_adapters: bool = False  # requests may choose the scales of its adapters
    projectors: Projectors | None = None
    # The facts of an adapter at a path that it claims, by name; none where it is something else.
    describe_adapter: Callable[[Path], Mapping[str, str]] | None = None
    slow_without_gpu: bool = False  # so that no model is recommended for it on a CPU
    preference: int = 0  # of two engines for a model the higher; below 0: not needed here
    # The command that starts what follows it on several machines; None: a model needs one.
    launcher: Callable[[Launch], Sequence[str]] | None = None
    member: str = ""  # the module whose `join` makes each of those processes a `Member`
    workers: str = ""  # the module with the functions of `Workers`, where it has them
    vectors: str = ""  # the module with the function of `VectorEngine`, where it has it
    advise: Callable[[Sequence[str]], Iterable[Finding]] = nothing  # on what it was built for
    builder: Builder | None = None  # where its library is built for a machine
    # Writes a model of these layers of another, at a path where there is nothing yet.
    thin: Callable[[Path, Sequence[int], Path], None] | None = None
    observe: Observe | None = None  # loads a model to train a head for it
    # Writes a trained head for the model at a path, at another path where there is nothing yet.
    write_head: Callable[[TrainedHead, Path, Path], None] | None = None
    # Writes a head in the engine's format, at a path where there is nothing yet.
    convert: Callable[[PublishedHead, Path], None] | None = None
    convert_adapter: Callable[[PublishedAdapter, Path], None] | None = None

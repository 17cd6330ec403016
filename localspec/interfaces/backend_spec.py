"""The description of an engine, read before it is imported: format, models, installation.

The entry point `localspec.backends` names a module that has one as `SPEC`. All of them are read to
find out which engine takes a model, so this module must not import the engine's library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from localspec.base.model_files import RemoteModel as RemoteModel
from localspec.base.model_files import files_of as files_of
from localspec.interfaces.coordinate import Coordinate
from localspec.interfaces.file_tools import AdapterTools, HeadTools, Projectors
from localspec.interfaces.other_machines import Group, Workers

if TYPE_CHECKING:
    from localspec.interfaces.backend import Footprint, Options


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about this machine, and the step that would improve it; none if all is well."""

    subject: str
    state: str
    step: str = ""


class Builder(NamedTuple):
    """The way to build an engine's library for this machine."""

    kinds: tuple[str, ...]  # that can be asked for, as "cuda"
    # Installs a kind, or for "" the one that fits here unless it is there; from source alone if
    # so advised. Returns a sentence on the result; `BackendError` if it failed.
    build: Callable[[str, bool], str]
    advise: Callable[[Sequence[str]], Iterable[Finding]]  # on the features that it was built for


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
    preference: int = 0  # of two engines for a model the higher; below 0: not needed here
    # Tokens of a prompt that it reads faster at once on a GPU, the most first, where there is room.
    wide_batches: tuple[int, ...] = ()
    slow_without_gpu: bool = False  # so that no model is recommended for it on a CPU
    vectors: str = ""  # the module with the functions of `VectorEngine`, where it has them
    # Options of loading that may be faster with other values; None: there is nothing to search.
    coordinates: Callable[[Footprint, Options], Sequence[Coordinate]] | None = None
    builder: Builder | None = None
    workers: Workers | None = None
    group: Group | None = None
    projectors: Projectors | None = None
    heads: HeadTools | None = None
    adapters: AdapterTools | None = None


def deferred(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called: what it needs takes time to import."""
    return partial(_import_and_call, module, name)


def _import_and_call(module: str, name: str, *arguments: object) -> Any:
    return getattr(import_module(module), name)(*arguments)

"""Engines by name, from whichever package offers them by an entry point."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from localspec.base.errors import BackendError, UsageError
from localspec.base.system.descriptors import limit_kept
from localspec.base.system.fingerprint import installed_versions
from localspec.interfaces.backend import Backend, Build, Device
from localspec.interfaces.backend_spec import BackendSpec
from localspec.interfaces.other_machines import WORKERS, Link
from localspec.interfaces.vector_model import VectorEngine

GROUP = "localspec.backends"
AUTO = "auto"  # a wish for whichever engine takes a model
MAX_LISTED = 8  # files of a folder that an error names


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine by its name, with its description."""

    name: str
    spec: BackendSpec

    def __str__(self) -> str:
        return self.name

    def backend(self) -> Backend:
        """Import it."""
        try:
            # A module of functions; it is held against the protocol by the type checker.
            with limit_kept():
                return cast(Backend, import_module(self.spec.module))
        except ModuleNotFoundError as error:
            raise BackendError(f"{self} needs {error.name}: {self.spec.install}") from error
        except (ImportError, OSError, RuntimeError) as error:  # the last two: of a shared library
            hint = "; `localspec doctor --fix` builds it anew" if self.spec.builder else ""
            raise BackendError(f"the engine {self} cannot be used: {error}{hint}") from error

    def vector_engine(self) -> VectorEngine:
        """Import what it reads whole texts with; `UsageError` if it has nothing for that."""
        if not self.spec.vectors:
            able = ", ".join(engine.spec.kind for engine in all_engines() if engine.spec.vectors)
            raise UsageError(
                f"{self} has no embeddings and no reranking: give the same model as "
                f"{able or 'a GGUF'}"
            )
        self.backend()  # which says what is missing
        return cast(VectorEngine, import_module(self.spec.vectors))

    def installed(self) -> EngineHere:
        module = self.backend()
        return EngineHere(self, module.build(), module.probe())

    def links(self) -> Sequence[Link]:
        """Measure the links to the workers that it is to use."""
        workers = self.spec.workers
        return workers.links() if workers and os.environ.get(WORKERS) else ()

    def versions(self) -> list[str]:
        """Read the versions of the packages that decide what it does."""
        return installed_versions(("localspec", "numpy", *self.spec.packages))


@dataclass(frozen=True, slots=True)
class EngineHere:
    """An engine as it is installed, and the devices it sees, as free as they were when asked."""

    engine: Engine
    build: Build
    devices: Sequence[Device]

    @property
    def circumstances(self) -> list[str]:
        """The name, build, devices and versions that decide how it computes."""
        kinds = sorted((device.name, device.kind) for device in self.devices)
        return [self.engine.name, repr(self.build), repr(kinds), *self.engine.versions()]


def all_engines() -> tuple[Engine, ...]:
    """All engines, the preferred first; one that cannot even be asked is left out."""
    usable = [Engine(name, spec) for name, spec in _offered().items() if not isinstance(spec, str)]
    return tuple(sorted(usable, key=lambda engine: (-engine.spec.preference, engine.name)))


@cache
def _offered() -> Mapping[str, BackendSpec | str]:
    return load_specs(entry_points(group=GROUP))


def load_specs(entries: Iterable[EntryPoint]) -> Mapping[str, BackendSpec | str]:
    """Load each entry point; map its name to its spec, or to its fault in words."""
    offers: dict[str, BackendSpec | str] = {}
    for entry in {(point.name, point.value): point for point in entries}.values():
        twice = entry.name in offers
        offers[entry.name] = "two packages offer it: uninstall one" if twice else _spec_of(entry)
    return offers


def _spec_of(entry: EntryPoint) -> BackendSpec | str:
    try:
        offer = entry.load().SPEC
    except Exception as error:  # of whatever kind: it is a stranger's module
        return f"{entry.value} cannot be asked for its SPEC: {error!r}"
    return offer if isinstance(offer, BackendSpec) else f"{entry.value}.SPEC is no BackendSpec"


def names() -> list[str]:
    """All engines by name, those included that cannot be used."""
    return list(dict.fromkeys((*map(str, all_engines()), *_offered())))


def engine(name: str) -> Engine:
    match _offered().get(name):
        case BackendSpec() as spec:
            return Engine(name, spec)
        case None:
            engines = ", ".join(map(str, all_engines()))
            raise BackendError(f"there is no engine {name} here; there are: {engines}")
        case fault:
            raise BackendError(f"the engine {name} cannot be used: {fault}")


def candidates(backend: str) -> tuple[Engine, ...]:
    """The engines to choose from: the one that is named, or all for `AUTO`."""
    return all_engines() if backend == AUTO else (engine(backend),)


def check(backend: str) -> None:
    """Refuse what is neither an engine's name nor `AUTO`."""
    if backend != AUTO and backend not in names():
        raise UsageError(f"backend is {backend!r}; known: {', '.join((AUTO, *names()))}")


def claiming(path: Path) -> list[Engine]:
    """List the engines that claim a path; one that fails when asked does not."""
    claimants = []
    for engine in all_engines():
        with suppress(Exception):
            if engine.spec.claims(path):
                claimants.append(engine)
    return claimants


def taker(path: Path, backend: str = AUTO) -> Engine:
    """The engine for a path: the one that is named, or the first that claims it.

    A file that no engine claims is for the first that takes files, which will say why not.
    """
    named = None if backend == AUTO else engine(backend)
    takers = claiming(path)
    if path.is_dir() and not (named and named.spec.folder):
        require_model_in(path, takers)
    if not takers:
        takers = [other for other in all_engines() if other.spec.folder == path.is_dir()]
    if named is None or named in takers:
        return named or takers[0]
    raise UsageError(f"{path} is for {takers[0]}; {named} takes {named.spec.kind}: omit --backend")


def require_model_in(folder: Path, takers: Sequence[Engine]) -> None:
    """Refuse a folder that is no model itself, and name the files in it that are models."""
    names = sorted(entry.name for entry in folder.iterdir())
    if any(taker.spec.models is None or taker.spec.models(names) for taker in takers):
        return
    for spec in (engine.spec for engine in all_engines()):
        if not spec.folder and (files := model_files(spec, folder, names)):
            more = f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
            raise UsageError(
                f"{folder} is a folder, and a model is one file in it: "
                f"{', '.join(files[:MAX_LISTED])}{more}; give the path of "
                f"one, as {shlex.quote(str(folder / files[0]))}"
            )
    if not takers:
        kinds = " or ".join(engine.spec.kind for engine in all_engines())
        raise UsageError(f"{folder} is a folder without a model in it: give {kinds}")


def model_files(spec: BackendSpec, folder: Path, names: Sequence[str]) -> list[str]:
    """List the files of a folder that an engine takes; of a model in parts, the first."""
    claimed = [name for name in names if spec.claims(folder / name)]
    if spec.models is None:
        return claimed
    return [model.files[0] for model in spec.models(claimed) if model.role == "model"]

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
from localspec.base.system.fingerprint import installed_versions
from localspec.interfaces.backend import Backend, Build, Device
from localspec.interfaces.backend_spec import BackendSpec
from localspec.interfaces.other_machines import WORKERS, Link
from localspec.interfaces.vector_model import VectorEngine

GROUP = "localspec.backends"
AUTO = "auto"  # a wish for whichever engine takes a model
MAX_LISTED = 8  # files of a folder that an error names


@cache
def specs() -> Mapping[str, BackendSpec]:
    """All engines, the preferred first; one that cannot even be asked is left out."""
    return in_order(_offered())


def in_order(offered: Mapping[str, BackendSpec | str]) -> dict[str, BackendSpec]:
    usable = {name: spec for name, spec in offered.items() if isinstance(spec, BackendSpec)}
    return dict(sorted(usable.items(), key=lambda item: (-item[1].preference, item[0])))


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
    return [*specs(), *(name for name in _offered() if name not in specs())]


def spec(name: str) -> BackendSpec:
    if usable := specs().get(name):
        return usable
    fault = _offered().get(name)
    raise BackendError(
        f"the engine {name} cannot be used: {fault}"
        if fault
        else f"there is no engine {name} here; there are: {', '.join(specs())}"
    )


def check(backend: str) -> str:
    """Return an engine's name or `AUTO`; `UsageError` for any other text."""
    if backend != AUTO and backend not in names():
        raise UsageError(f"backend is {backend!r}; known: {', '.join((AUTO, *names()))}")
    return backend


def claiming(path: Path) -> list[str]:
    """List the engines that claim a path; one that fails when asked does not."""
    claimants = []
    for name, engine in specs().items():
        with suppress(Exception):
            if engine.claims(path):
                claimants.append(name)
    return claimants


def taker(path: Path, backend: str = AUTO) -> str:
    """The engine for a path: the one that is named, or the first that claims it.

    A file that no engine claims is for the first that takes files, which will say why not.
    """
    takers = claiming(path)
    if path.is_dir() and (backend == AUTO or not spec(backend).folder):
        require_model_in(path, takers)
    if not takers:
        folder = path.is_dir()
        takers = [name for name, engine in specs().items() if engine.folder == folder]
    if backend == AUTO:
        return takers[0]
    if backend in takers:
        return backend
    raise UsageError(
        f"{path} is for {takers[0]}; {backend} takes {spec(backend).kind}: omit --backend"
    )


def require_model_in(folder: Path, takers: Sequence[str]) -> None:
    """Refuse a folder that is no model itself, and name the files in it that are models."""
    names = sorted(entry.name for entry in folder.iterdir())
    if any(models is None or models(names) for models in (spec(name).models for name in takers)):
        return
    for engine in specs().values():
        if not engine.folder and (files := model_files(engine, folder, names)):
            more = f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
            raise UsageError(
                f"{folder} is a folder, and a model is one file in it: "
                f"{', '.join(files[:MAX_LISTED])}{more}; give its path, as in "
                f"localspec chat {shlex.quote(str(folder / files[0]))}"
            )
    if not takers:
        kinds = " or ".join(engine.kind for engine in specs().values())
        raise UsageError(f"{folder} is a folder without a model in it: give {kinds}")


def model_files(engine: BackendSpec, folder: Path, names: Sequence[str]) -> list[str]:
    """List the files of a folder that an engine takes; of a model in parts, the first."""
    claimed = [name for name in names if engine.claims(folder / name)]
    if engine.models is None:
        return claimed
    return [model.files[0] for model in engine.models(claimed) if model.role == "model"]


def backend(name: str) -> Backend:
    """Import an engine."""
    engine = spec(name)
    try:
        # A module of functions; it is held against the protocol by the type checker.
        return cast(Backend, import_module(engine.module))
    except ModuleNotFoundError as error:
        raise BackendError(f"{name} needs {error.name}: {engine.install}") from error
    except (ImportError, OSError, RuntimeError) as error:  # the last two: of a shared library
        hint = "; `localspec doctor --fix` builds it anew" if engine.builder else ""
        raise BackendError(f"the engine {name} cannot be used: {error}{hint}") from error


def vector_engine(name: str) -> VectorEngine:
    """Import what an engine reads whole texts with; `UsageError` if it has nothing for that."""
    if not spec(name).vectors:
        able = ", ".join(engine.kind for engine in specs().values() if engine.vectors)
        raise UsageError(
            f"{name} has no embeddings and no reranking: give the same model as {able or 'a GGUF'}"
        )
    backend(name)  # which says what is missing
    return cast(VectorEngine, import_module(spec(name).vectors))


@dataclass(frozen=True, slots=True)
class EngineHere:
    """An engine as it is installed, and the devices it sees, as free as they were when asked."""

    name: str
    build: Build
    devices: Sequence[Device]

    @property
    def circumstances(self) -> list[str]:
        """The name, build, devices and versions that decide how it computes."""
        kinds = sorted((device.name, device.kind) for device in self.devices)
        return [self.name, repr(self.build), repr(kinds), *versions(self.name)]


def engine_here(name: str) -> EngineHere:
    module = backend(name)
    return EngineHere(name, module.build(), module.probe())


def links(name: str) -> Sequence[Link]:
    """Measure the links to the workers that an engine is to use."""
    workers = spec(name).workers
    return workers.links() if workers and os.environ.get(WORKERS) else ()


def versions(name: str) -> list[str]:
    """Read the versions of the packages that decide what an engine does."""
    return installed_versions(("localspec", "numpy", *spec(name).packages))


def weight_files(name: str, path: Path) -> Sequence[Path]:
    """All files of an engine's model."""
    return spec(name).files(path)

"""Models by name: what `models.toml` lists, or a path; and the engine that runs what is there."""

from __future__ import annotations

import importlib.util
import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args

from localspec.errors import UnknownModel, UsageError

Engine = Literal["llamacpp", "mlx"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
Wish = Literal["auto", "llamacpp", "mlx"]
WISHES: tuple[Wish, ...] = get_args(Wish)

KINDS: Mapping[Engine, str] = {"llamacpp": "a GGUF file", "mlx": "an MLX folder"}


@dataclass(frozen=True, slots=True)
class Source:
    """Weights that an installed package carries."""

    package: str  # its importable name
    file: str  # inside it; a folder for MLX
    install: str  # the command that gets it


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    about: str
    licence: str
    sources: Mapping[Engine, Source]


@dataclass(frozen=True, slots=True)
class Found:
    engine: Engine
    path: Path


def entries(catalogue: Path | None = None) -> dict[str, Entry]:
    text = (catalogue or _catalogue()).read_text(encoding="utf-8")
    return {name: _entry(name, fields) for name, fields in tomllib.loads(text).items()}


def locate(name_or_path: str, wish: Wish = "auto") -> Found:
    """Where the weights of a named model, or of a path, are on this machine."""
    path = Path(name_or_path).expanduser()
    if path.exists():
        return Found(_engine_of(path, wish), path)
    entry = entries().get(name_or_path)
    if entry:
        engine = choose(entry, wish, preferred())
        return Found(engine, _in_package(entry.name, entry.sources[engine]))
    if path.suffix or len(path.parts) > 1:
        raise UnknownModel(f"there is no file {name_or_path}")
    names = sorted(entries())
    close = get_close_matches(name_or_path, names, 1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
    raise UnknownModel(f"there is no model {name_or_path!r}; {hint}")


def choose(entry: Entry, wish: Wish, order: Sequence[Engine]) -> Engine:
    """The engine for a named model: the one wished for, or the first it is there for."""
    engines = order if wish == "auto" else (wish,)
    for engine in engines:
        if engine in entry.sources:
            return engine
    raise UsageError(
        f"{entry.name} is not listed as {KINDS[engines[0]]}, which {engines[0]} needs: "
        "leave --backend away, or give a path"
    )


def preferred() -> tuple[Engine, ...]:
    """MLX first on Apple silicon, which it was made for."""
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    return ("mlx", "llamacpp") if apple else ("llamacpp", "mlx")


def _engine_of(path: Path, wish: Wish) -> Engine:
    engine: Engine = "mlx" if path.is_dir() else "llamacpp"
    if wish != "auto" and wish != engine:
        raise UsageError(
            f"{path} is for {engine}; {wish} takes {KINDS[wish]}: leave --backend away"
        )
    return engine


def _entry(name: str, fields: dict[str, object]) -> Entry:
    sources = {engine: Source(**fields.pop(engine)) for engine in ENGINES if engine in fields}  # type: ignore[arg-type]
    return Entry(name, sources=sources, **fields)  # type: ignore[arg-type]


def _catalogue() -> Path:
    """Beside the package when installed, one level up in a checkout."""
    here = Path(__file__).parent
    beside = here / "models.toml"
    return beside if beside.exists() else here.parent / "models.toml"


def _in_package(name: str, source: Source) -> Path:
    """A file of an installed package, found without importing that package."""
    spec = importlib.util.find_spec(source.package)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / source.file
        if path.exists():
            return path
    raise UnknownModel(f"{name} is not installed: {source.install}")

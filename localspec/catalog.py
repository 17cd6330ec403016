"""Models by name: what `models.toml` lists, or a path."""

from __future__ import annotations

import importlib.util
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from localspec.errors import UnknownModel


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    about: str
    licence: str
    package: str  # importable name of the package that carries the weights
    file: str  # inside it
    install: str  # the command that gets it


def entries() -> dict[str, Entry]:
    found = tomllib.loads(_catalogue().read_text(encoding="utf-8"))
    return {name: Entry(name, **fields) for name, fields in found.items()}


def locate(name_or_path: str) -> Path:
    """Where the weights of a named model, or of a path, are on this machine."""
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path
    entry = entries().get(name_or_path)
    if entry:
        return _in_package(entry)
    if path.suffix or len(path.parts) > 1:
        raise UnknownModel(f"there is no file {name_or_path}")
    names = sorted(entries())
    close = get_close_matches(name_or_path, names, 1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
    raise UnknownModel(f"there is no model {name_or_path!r}; {hint}")


def _catalogue() -> Path:
    """Beside the package when installed, one level up in a checkout."""
    here = Path(__file__).parent
    beside = here / "models.toml"
    return beside if beside.exists() else here.parent / "models.toml"


def _in_package(entry: Entry) -> Path:
    """A file of an installed package, found without importing that package."""
    spec = importlib.util.find_spec(entry.package)
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / entry.file
        if path.exists():
            return path
    raise UnknownModel(f"{entry.name} is not installed: {entry.install}")

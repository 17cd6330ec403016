"""Pairs by name, as `models.toml` and a user's own file list them; every key is checked."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from localspec.errors import UnknownModel, UsageError
from localspec.models.catalogue_file import NAME, read
from localspec.models.entry import KINDS, Engine, Entry, Wish
from localspec.models.sources import SCHEMES
from localspec.system import folders


def builtin() -> Path:
    """Beside the package when installed, one level up in a checkout."""
    here = Path(__file__).parents[1]
    beside = here / "models.toml"
    return beside if beside.exists() else here.parent / "models.toml"


def own() -> Path:
    """What a user adds or puts in place of ours."""
    return folders.configuration() / "models.toml"


def entries() -> dict[str, Entry]:
    found = dict(_builtin())
    if own().exists():
        found |= read(own())
    for entry in found.values():
        _check_drafts(entry, found)
    return found


@cache
def _builtin() -> Mapping[str, Entry]:
    return read(builtin())


def find(name: str) -> Entry:
    known = entries()
    if name not in known:
        close = get_close_matches(name, sorted(known), 3, 0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`localspec list` shows them"
        raise UnknownModel(f"there is no model {name!r}; {hint}")
    return known[name]


def choose(entry: Entry, wish: Wish, order: Sequence[Engine]) -> Engine:
    """The engine for a named model: the one wished for, or the first it is there for."""
    engines = order if wish == "auto" else (wish,)
    for engine in engines:
        if engine in entry.offers:
            return engine
    raise UsageError(
        f"{entry.name} is not listed as {KINDS[engines[0]]}, which {engines[0]} needs: "
        "leave --backend away, or give a path"
    )


def preferred() -> tuple[Engine, ...]:
    """MLX first on Apple silicon, which it was made for."""
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    return ("mlx", "llamacpp") if apple else ("llamacpp", "mlx")


def _check_drafts(entry: Entry, known: Mapping[str, Entry]) -> None:
    for engine, offer in entry.offers.items():
        name, _, weights = offer.draft.partition(":")
        if offer.drafter != "model" or not NAME.fullmatch(name) or name in SCHEMES:
            continue
        other = known.get(name)
        if other is None or engine not in other.offers:
            raise UsageError(f"{entry.name} drafts with {name}, which is not there for {engine}")
        if weights and weights not in other.offers[engine].weights:
            there = ", ".join(other.offers[engine].weights)
            raise UsageError(f"{entry.name} drafts with {offer.draft}; {name} has: {there}")

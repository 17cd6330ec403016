"""Pairs by name, as `models.toml` and a user's own file list them; every key is checked."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from localspec.base.errors import UnknownModel, UsageError
from localspec.base.system import folders
from localspec.running.models import catalogue_file
from localspec.running.models.catalogue_file import NAME, read
from localspec.running.models.engines import AUTO, Engine, candidates
from localspec.running.models.entry import Entry
from localspec.running.models.sources import SCHEMES, as_hub_source


def builtin() -> Path:
    """Find the built-in catalogue: beside the installed package, or one level up in a checkout."""
    package = Path(__file__).parents[2]
    beside = package / "models.toml"
    return beside if beside.exists() else package.parent / "models.toml"


def own() -> Path:
    """Find the user's catalogue; its entries add to the built-in ones or replace them."""
    return folders.configuration() / "models.toml"


def names() -> set[str]:
    """Name all entries, without reading what is in them."""
    return set(catalogue_file.names(builtin())) | set(catalogue_file.names(own()))


def entries() -> dict[str, Entry]:
    return with_builtin(read(own()) if own().exists() else {})


def with_builtin(own_entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Add the user's entries to the built-in ones, which they may replace."""
    merged = {**_builtin(), **own_entries}
    for entry in merged.values():
        if fault := _drafts_fault(entry, merged):
            raise UsageError(f"{own()}: {fault}" if own_entries else fault)
    return merged


@cache
def _builtin() -> Mapping[str, Entry]:
    return read(builtin())


def find(name: str) -> Entry:
    listed = entries()
    if name not in listed:
        close = get_close_matches(name, sorted(listed), 3, 0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`localspec list` shows them"
        if hub := as_hub_source(name):
            hint = f"a repository of the hub is pulled by: localspec pull {hub}"
        raise UnknownModel(f"there is no model {name!r}; {hint}")
    return listed[name]


def choose(entry: Entry, backend: str) -> Engine:
    """Choose the engine for a named model: `backend`, or the first that it is offered for."""
    engines = candidates(backend)
    for engine in engines:
        if engine.spec.format in entry.offers:
            return engine
    if backend == AUTO:
        listed = " and ".join(entry.offers)
        raise UsageError(
            f"{entry.name} is listed as {listed} only, which none of the engines here takes: "
            f"{', '.join(map(str, engines))}"
        )
    raise UsageError(
        f"{entry.name} is not listed as {engines[0].spec.kind}, which {backend} needs: "
        "omit --backend, or give a path"
    )


def _drafts_fault(entry: Entry, listed: Mapping[str, Entry]) -> str:
    for kind, offer in entry.offers.items():
        name, _, weights = offer.draft.partition(":")
        if offer.drafter != "model" or not NAME.fullmatch(name) or name in SCHEMES:
            continue
        other = listed.get(name)
        if other is None or kind not in other.offers:
            return f"{entry.name} drafts with {name}, which is not there as {kind}"
        if weights and weights not in other.offers[kind].weights:
            names = ", ".join(other.offers[kind].weights)
            return f"{entry.name} drafts with {offer.draft}; {name} has: {names}"
    return ""

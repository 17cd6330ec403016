"""What a repository holds, and which of it makes a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from localspec.errors import PullError

SHARD = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf", re.I)
SIDECARS = ("mtp-", "eagle3-", "dflash-")  # drafters, as llama.cpp names them
OTHERS = ("mmproj", "imatrix", *SIDECARS)  # GGUFs beside a model that are none
FOLDER = ("*.json", "*.safetensors", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")


@dataclass(frozen=True, slots=True)
class Remote:
    """One file as the hub lists it."""

    name: str
    size: int
    sum: str  # sha256 of a large file, git's for a small one
    large: bool


@dataclass(frozen=True, slots=True)
class Listing:
    repository: str
    revision: str  # a commit
    files: tuple[Remote, ...]


def gguf(found: Listing, wanted: str, quantisation: str = "") -> list[Remote]:
    """The file of a name, a pattern or a quantisation, with all its parts."""
    models = [each for each in found.files if each.name.lower().endswith(".gguf")]
    groups = grouped(models)
    own = [stem for stem in groups if not Path(stem).name.lower().startswith(OTHERS)]
    if wanted:
        chosen = [stem for stem in groups if _named(stem, groups[stem], wanted)]
    elif quantisation:
        word = re.compile(rf"(^|[-_./]){re.escape(quantisation)}([-_.]|$)", re.I)
        chosen = [stem for stem in own if word.search(stem)] or (own if len(own) == 1 else [])
    else:
        chosen = own
    if len(chosen) != 1:
        there = ", ".join(sorted(chosen or own)) or "no GGUF file"
        count = "several files" if chosen else "no file"
        what = f" for {wanted or quantisation}" if wanted or quantisation else ""
        raise PullError(f"{found.repository} has {count}{what}: name one; there are: {there}")
    return complete(found.repository, groups[chosen[0]])


def _named(stem: str, group: Sequence[Remote], wanted: str) -> bool:
    return fnmatch(stem.lower(), wanted.lower().removesuffix(".gguf")) or any(
        fnmatch(each.name.lower(), wanted.lower()) for each in group
    )


def grouped(files: Sequence[Remote]) -> dict[str, list[Remote]]:
    """Parts of one model together, by what their names have in common."""
    groups: dict[str, list[Remote]] = {}
    for each in files:
        shard = SHARD.fullmatch(each.name)
        stem = shard["stem"] if shard else each.name[: -len(".gguf")]
        groups.setdefault(stem, []).append(each)
    return groups


def complete(repository: str, group: Sequence[Remote]) -> list[Remote]:
    """A model's parts in their order, if all are there."""
    parts = {int(found["part"]): each for each in group if (found := SHARD.fullmatch(each.name))}
    if not parts:
        return list(group)
    [first, *_] = parts.values()
    total = int((SHARD.fullmatch(first.name) or [""])["parts"])  # type: ignore[call-overload]
    missing = [part for part in range(1, total + 1) if part not in parts]
    if missing:
        raise PullError(f"{repository} lacks part {missing[0]} of {total} of {first.name}")
    return [parts[part] for part in range(1, total + 1)]


def folder(found: Listing) -> list[Remote]:
    """What mlx-lm reads of a repository; never code."""
    files = [
        each
        for each in found.files
        if "/" not in each.name and any(fnmatch(each.name, pattern) for pattern in FOLDER)
    ]
    names = {each.name for each in files}
    if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
        raise PullError(f"{found.repository} is no MLX folder: it lacks a config or safetensors")
    return files


def sidecars(found: Listing) -> list[Remote]:
    """Drafters that lie beside a model."""
    return [each for each in found.files if Path(each.name).name.lower().startswith(SIDECARS)]

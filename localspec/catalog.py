"""Pairs by name, as `models.toml` and a user's own file list them; every key is checked."""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import platformdirs

from localspec.errors import UnknownModel, UsageError
from localspec.sources import Source, source

Engine = Literal["llamacpp", "mlx"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
Wish = Literal["auto", "llamacpp", "mlx"]
WISHES: tuple[Wish, ...] = get_args(Wish)

FORMATS: Mapping[str, Engine] = {"gguf": "llamacpp", "mlx": "mlx"}
KINDS: Mapping[Engine, str] = {"llamacpp": "a GGUF file", "mlx": "an MLX folder"}
DRAFTERS = ("none", "model", "mtp-inside", "mtp", "eagle3", "dflash")
ALONE = ("none", "mtp-inside")  # drafters that are no other file
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?(MB|GB)")
UNITS = {"MB": 10**6, "GB": 10**9}
SAMPLING = ("temperature", "top-p", "top-k", "min-p", "repetition", "presence", "frequency")


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides how much memory a text takes."""

    layers: int
    kv_heads: int
    head: int
    vocabulary: int

    @property
    def token_bytes(self) -> int:
        """16-bit keys and values of one token."""
        return 2 * 2 * self.layers * self.kv_heads * self.head


@dataclass(frozen=True, slots=True)
class Weights:
    """One quantisation of a model."""

    source: Source
    bytes: int  # as published, rounded
    install: str = ""  # the command that gets the package it is in
    sums: tuple[str, ...] = ()  # sha256 of its large files, where somebody has checked them


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is for one engine, the preferred weights first."""

    weights: Mapping[str, Weights]
    drafter: str = "none"
    draft: str = ""  # another name of the catalogue with its weights, or a source


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    about: str
    licence: str
    offers: Mapping[Engine, Offer]
    family: str = ""
    parameters: str = ""
    context: int = 0
    good_at: tuple[str, ...] = ()
    sampling: Mapping[str, float] = field(default_factory=dict)  # that its makers recommend
    shape: Shape | None = None
    checked: bool = False  # somebody has resolved its files


def builtin() -> Path:
    """Beside the package when installed, one level up in a checkout."""
    here = Path(__file__).parent
    beside = here / "models.toml"
    return beside if beside.exists() else here.parent / "models.toml"


def own() -> Path:
    """What a user adds or puts in place of ours."""
    return platformdirs.user_config_path("localspec", appauthor=False) / "models.toml"


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


def read(path: Path) -> dict[str, Entry]:
    """A catalogue; what it says is taken as it is meant, or refused with line and key."""
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    reader = Reader(path, text)
    return {name: reader.entry(name, table) for name, table in tables.items()}


def _check_drafts(entry: Entry, known: Mapping[str, Entry]) -> None:
    for engine, offer in entry.offers.items():
        name, _, weights = offer.draft.partition(":")
        if offer.drafter != "model" or not NAME.fullmatch(name):
            continue
        other = known.get(name)
        if other is None or engine not in other.offers:
            raise UsageError(f"{entry.name} drafts with {name}, which is not there for {engine}")
        if weights and weights not in other.offers[engine].weights:
            there = ", ".join(other.offers[engine].weights)
            raise UsageError(f"{entry.name} drafts with {offer.draft}; {name} has: {there}")


class Reader:
    """Tables of one file; where one is wrong, its line is named."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def entry(self, name: str, table: object) -> Entry:
        place = (name,)
        if not NAME.fullmatch(name):
            self._refuse(place, "", f"is no name: it must match {NAME.pattern}")
        fields = self._table(place, table)
        offers = {
            engine: self._offer((*place, kind), fields.pop(kind))
            for kind, engine in FORMATS.items()
            if kind in fields
        }
        if not offers:
            self._refuse(place, "", f"has weights for no engine: it needs {' or '.join(FORMATS)}")
        found = Entry(
            name,
            self._take(place, fields, "about", str),
            self._take(place, fields, "licence", str),
            offers,
            self._take(place, fields, "family", str, ""),
            self._take(place, fields, "parameters", str, ""),
            self._take(place, fields, "context", int, 0),
            tuple(self._words(place, fields, "good-at")),
            self._sampling(place, fields),
            self._shape(place, fields),
            self._take(place, fields, "checked", bool, False),
        )
        self._nothing_else(place, fields, Entry.__slots__)
        return found

    def _offer(self, place: tuple[str, ...], table: object) -> Offer:
        fields = self._table(place, table)
        drafter = self._take(place, fields, "drafter", str, "none")
        if drafter not in DRAFTERS:
            self._refuse(place, "drafter", f"is {drafter!r}; known: {', '.join(DRAFTERS)}")
        draft = self._take(place, fields, "draft", str, "")
        if bool(draft) == (drafter in ALONE):
            need = "must be left away" if draft else "is missing"
            self._refuse(place, "draft", f"{need} where the drafter is {drafter!r}")
        listed = self._table((*place, "weights"), fields.pop("weights", {}))
        weights = {
            name: self._weights((*place, "weights", name), each) for name, each in listed.items()
        }
        if not weights:
            self._refuse(place, "", "has no weights")
        self._nothing_else(place, fields, ("drafter", "draft", "weights"))
        return Offer(weights, drafter, draft)

    def _weights(self, place: tuple[str, ...], table: object) -> Weights:
        fields = self._table(place, table)
        said = self._take(place, fields, "size", str)
        size = SIZE.fullmatch(said)
        if not size:
            self._refuse(place, "size", f"is {said!r}; write it as 5.0GB or 98MB")
        try:
            where = source(self._take(place, fields, "from", str))
        except UsageError as error:
            self._refuse(place, "from", f"is wrong: {error}")
        install = self._take(place, fields, "install", str, "")
        sums = self._words(place, fields, "sha256")
        self._nothing_else(place, fields, ("from", "size", "install", "sha256"))
        return Weights(where, int(float(size[1]) * UNITS[size[2]]), install, tuple(sums))

    def _sampling(self, place: tuple[str, ...], fields: dict[str, object]) -> dict[str, float]:
        place = (*place, "sampling")
        table = self._table(place, fields.pop("sampling", {}))
        found = {
            name: float(self._take(place, table, name, (int, float)))
            for name in SAMPLING
            if name in table
        }
        self._nothing_else(place, table, SAMPLING)
        return found

    def _shape(self, place: tuple[str, ...], fields: dict[str, object]) -> Shape | None:
        if "shape" not in fields:
            return None
        place = (*place, "shape")
        table = self._table(place, fields.pop("shape"))
        names = ("layers", "kv-heads", "head", "vocabulary")
        numbers = [self._take(place, table, name, int) for name in names]
        self._nothing_else(place, table, names)
        return Shape(*numbers)

    def _words(self, place: tuple[str, ...], fields: dict[str, object], key: str) -> list[str]:
        words: list[str] = self._take(place, fields, key, list, [])
        if not all(isinstance(word, str) for word in words):
            self._refuse(place, key, "must be a list of words")
        return words

    def _take(
        self,
        place: tuple[str, ...],
        fields: dict[str, object],
        key: str,
        kind: type | tuple[type, ...],
        default: object = None,
    ) -> Any:
        """A value of the right kind; without a default it must be there."""
        if key not in fields:
            if default is None:
                self._refuse(place, "", f"lacks {key!r}")
            return default
        value = fields.pop(key)
        wanted = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            names = " or ".join(each.__name__ for each in wanted)
            self._refuse(place, key, f"is {value!r}; it must be of type {names}")
        if isinstance(value, int | float) and value < 0:
            self._refuse(place, key, f"is {value!r}; it must not be negative")
        return value

    def _table(self, place: tuple[str, ...], value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            self._refuse(place, "", "must be a table")
        return dict(value)

    def _nothing_else(
        self, place: tuple[str, ...], fields: Mapping[str, object], known: Sequence[str]
    ) -> None:
        for key in fields:
            close = get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
            self._refuse(place, key, f"is not known; {hint}")

    def _refuse(self, place: tuple[str, ...], key: str, what: str) -> NoReturn:
        named = ".".join(place)
        line = self._line(place, key)
        where = f"{self._path}, line {line}" if line else str(self._path)
        what = f"key {key!r} {what}" if key else what
        raise UsageError(f"{where}: {named}: {what}")

    def _line(self, place: tuple[str, ...], key: str) -> int:
        """Where a table begins, or a key in it; the nearest there is."""
        start = 0
        for depth in range(len(place), 0, -1):
            parts = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in place[:depth])
            header = re.compile(rf"\s*\[\s*{parts}\s*\]")
            lines = [at for at, line in enumerate(self._lines, 1) if header.match(line)]
            if lines:
                start = lines[0]
                key = place[depth] if depth < len(place) else key
                break
        if key:
            assignment = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*(=|\.)")
            for at, line in enumerate(self._lines[start:], start + 1):
                if line.lstrip().startswith("["):
                    break
                if assignment.match(line):
                    return at
        return start

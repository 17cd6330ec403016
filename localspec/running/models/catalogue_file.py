"""Read a catalogue; each wrong value is refused with its line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from localspec.base.errors import UsageError
from localspec.core.sampling.order import LETTERS, sampler_name
from localspec.core.sampling.parameters import PARAMETERS
from localspec.interfaces.footprint import DOES
from localspec.running.models import engines
from localspec.running.models.entry import Entry, Offer, Shape, Weights
from localspec.running.models.sources import source

HEADS = ("mtp", "eagle", "eagle3", "dflash", "medusa", "mlp_speculator")  # in files of their own
DRAFTERS = ("none", "model", "mtp-inside", *HEADS)
NO_PARTS = ("none", "mtp-inside")  # drafters that are no other file
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?(MB|GB)")
PREFIXED = ("query", "document")  # kinds of texts
UNITS = {"MB": 10**6, "GB": 10**9}
SAMPLING = tuple(parameter.key for parameter in PARAMETERS)


def read(path: Path) -> dict[str, Entry]:
    """Read all entries of a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return parse(path, text)


def parse(path: Path, text: str) -> dict[str, Entry]:
    """Read the entries in the text of a file, which errors name."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    reader = CatalogueReader(path, text)
    return {name: reader.entry(name, table) for name, table in tables.items()}


def names(path: Path) -> list[str]:
    """Name the entries of a file, which need not be right; none where there is no such file."""
    try:
        return list(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


def formats() -> list[str]:
    """List the formats of the installed engines."""
    return list(dict.fromkeys(engine.spec.format for engine in engines.all_engines()))


def misspelt(key: str, keys: Iterable[str]) -> bool:
    return bool(get_close_matches(key, (*keys, *Entry.__slots__), 1, 0.8))


class CatalogueReader:
    """Reads the tables of one file; errors name the line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def entry(self, name: str, table: object) -> Entry:
        if not NAME.fullmatch(name):
            self.refuse((name,), "", f"is no name: it must match {NAME.pattern}")
        fields = _Table(self, (name,), table)
        offers = {kind: _offer(fields.table(kind)) for kind in _formats(fields.values)}
        if not offers:
            fields.refuse("", f"has weights for no engine: it needs {' or '.join(formats())}")
        entry = Entry(
            name,
            fields.take("about", str),
            fields.take("licence", str),
            offers,
            fields.take("family", str, ""),
            fields.take("parameters", str, ""),
            fields.take("original", str, ""),
            fields.take("context", int, 0),
            tuple(fields.words("good-at")),
            _sampling(fields.table("sampling")),
            _shape(fields.table("shape")) if "shape" in fields.values else None,
            fields.take("checked", bool, False),
            fields.take("reasons", bool, False),
            fields.choice("kind", "text", DOES),
            _prefixes(fields.table("prefixes")),
            fields.take("reasoning-budget", int, -1),
            fields.take("reasoning-budget-message", str, ""),
            _samplers(fields),
        )
        fields.nothing_else((*Entry.__slots__, *formats()))
        return entry

    def refuse(self, place: tuple[str, ...], key: str, fault: str) -> NoReturn:
        named = ".".join(place)
        line = self._line(place, key)
        location = f"{self._path}, line {line}" if line else str(self._path)
        fault = f"key {key!r} {fault}" if key else fault
        raise UsageError(f"{location}: {named}: {fault}")

    def _line(self, place: tuple[str, ...], key: str) -> int:
        """Find the line of a table, or of a key in it, or the nearest line to that."""
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
                if assignment.match(line):
                    return at
        return start


class _Table:
    """The fields of one table that are not read yet, and its place in the file."""

    def __init__(self, reader: CatalogueReader, place: tuple[str, ...], values: object) -> None:
        self._reader = reader
        self._place = place
        if not isinstance(values, dict):
            self.refuse("", "must be a table")
        self.values: dict[str, Any] = dict(values)

    def table(self, key: str) -> _Table:
        """Read a table inside this one, empty where there is none."""
        return _Table(self._reader, (*self._place, key), self.values.pop(key, {}))

    def take(self, key: str, kind: type | tuple[type, ...], default: object = None) -> Any:
        """Read a value of the right kind; without a default it must be there."""
        if key not in self.values:
            if default is None:
                self.refuse("", f"lacks {key!r}")
            return default
        value = self.values.pop(key)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(one.__name__ for one in kinds)
            self.refuse(key, f"is {value!r}; it must be of type {names}")
        if isinstance(value, int | float) and value < 0:
            self.refuse(key, f"is {value!r}; it must not be negative")
        return value

    def choice(self, key: str, default: str, choices: Iterable[str]) -> Any:
        value = self.take(key, str, default)
        if value not in choices:
            self.refuse(key, f"is {value!r}; known: {', '.join(choices)}")
        return value

    def words(self, key: str) -> list[str]:
        words: list[str] = self.take(key, list, [])
        if not all(isinstance(word, str) for word in words):
            self.refuse(key, "must be a list of words")
        return words

    def size(self, key: str, default: str | None = None) -> int:
        """Read a number of bytes; an empty default is none."""
        text = self.take(key, str, default)
        size = SIZE.fullmatch(text)
        if text and not size:
            self.refuse(key, f"is {text!r}; write it as 5.0GB or 98MB")
        return int(float(size[1]) * UNITS[size[2]]) if size else 0

    def nothing_else(self, keys: Sequence[str]) -> None:
        for key in self.values:
            close = get_close_matches(key, keys, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(keys)}"
            self.refuse(key, f"is not known; {hint}")

    def refuse(self, key: str, fault: str) -> NoReturn:
        self._reader.refuse(self._place, key, fault)


def _formats(fields: Mapping[str, object]) -> list[str]:
    """List the tables of weights, also for missing engines, unless a name is misspelt."""
    format_names = formats()
    return [
        key
        for key, value in fields.items()
        if key in format_names
        or (isinstance(value, dict) and "weights" in value and not misspelt(key, format_names))
    ]


def _offer(fields: _Table) -> Offer:
    drafter = fields.choice("drafter", "none", DRAFTERS)
    draft = fields.take("draft", str, "")
    if bool(draft) == (drafter in NO_PARTS):
        need = "must be omitted" if draft else "is missing"
        fields.refuse("draft", f"{need} where the drafter is {drafter!r}")
    original = fields.take("draft-original", str, "")
    draft_size = fields.size("draft-size", "")
    if draft_size and drafter not in HEADS:
        fields.refuse("draft-size", f"is of a head, and the drafter is {drafter!r}")
    projector = _source(fields, "projector", "")
    projector_size = fields.size("projector-size", "")
    if projector and not projector_size:
        fields.refuse("projector", "needs a projector-size beside it")
    if projector_size and not projector:
        fields.refuse("projector-size", "is of a projector, and there is none")
    listed = fields.table("weights")
    weights = {name: _weights(listed.table(name)) for name in list(listed.values)}
    if not weights:
        fields.refuse("", "has no weights")
    keys = ("drafter", "draft", "draft-original", "draft-size", "projector", "projector-size")
    fields.nothing_else((*keys, "weights"))
    return Offer(weights, drafter, draft, original, draft_size, projector, projector_size)


def _source(fields: _Table, key: str, default: str | None = None) -> str:
    text: str = fields.take(key, str, default)
    try:
        if text or default is None:
            source(text)
    except UsageError as error:
        fields.refuse(key, f"is wrong: {error}")
    return text


def _weights(fields: _Table) -> Weights:
    size = fields.size("size")
    origin = source(_source(fields, "from"))
    install = fields.take("install", str, "")
    sums = fields.words("sha256")
    fields.nothing_else(("from", "size", "install", "sha256"))
    return Weights(origin, size, install, tuple(sums))


def _sampling(fields: _Table) -> dict[str, float]:
    names = [name for name in SAMPLING if name in fields.values]
    sampling = {name: float(fields.take(name, (int, float))) for name in names}
    fields.nothing_else(SAMPLING)
    return sampling


def _samplers(fields: _Table) -> tuple[str, ...]:
    names = fields.words("samplers")
    for name in names:
        if sampler_name(name) is None:
            fields.refuse("samplers", f"has {name!r}; known: {', '.join(LETTERS.values())}")
    return tuple(name for name in map(sampler_name, names) if name)


def _prefixes(fields: _Table) -> dict[str, str]:
    prefixes = {name: fields.take(name, str) for name in PREFIXED if name in fields.values}
    fields.nothing_else(PREFIXED)
    return prefixes


def _shape(fields: _Table) -> Shape:
    names = ("layers", "kv-heads", "head", "vocabulary")
    numbers = [fields.take(name, int) for name in names]
    fields.nothing_else(names)
    return Shape(*numbers)

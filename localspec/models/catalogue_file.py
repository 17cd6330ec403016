"""Read a catalogue; each wrong value is refused with its line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from localspec.errors import UsageError
from localspec.models import engines
from localspec.models.entry import Entry, Offer, Shape, Weights
from localspec.models.sources import source
from localspec.sampling.order import LETTERS, sampler_name
from localspec.sampling.table import PARAMETERS
from localspec.vector_model import DOES, Kind

HEADS = ("mtp", "eagle3", "dflash", "medusa", "mlp_speculator")  # in files of their own
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
    return list(dict.fromkeys(engine.format for engine in engines.specs().values()))


def misspelt(key: str, keys: Iterable[str]) -> bool:
    return bool(get_close_matches(key, (*keys, *Entry.__slots__), 1, 0.8))


class CatalogueReader:
    """Reads the tables of one file; errors name the line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def entry(self, name: str, table: object) -> Entry:
        place = (name,)
        if not NAME.fullmatch(name):
            self._refuse(place, "", f"is no name: it must match {NAME.pattern}")
        fields = self._table(place, table)
        offers = {
            kind: self._offer((*place, kind), fields.pop(kind)) for kind in self._formats(fields)
        }
        if not offers:
            needed = " or ".join(formats())
            self._refuse(place, "", f"has weights for no engine: it needs {needed}")
        entry = Entry(
            name,
            self._take(place, fields, "about", str),
            self._take(place, fields, "licence", str),
            offers,
            self._take(place, fields, "family", str, ""),
            self._take(place, fields, "parameters", str, ""),
            self._take(place, fields, "original", str, ""),
            self._take(place, fields, "context", int, 0),
            tuple(self._words(place, fields, "good-at")),
            self._sampling(place, fields),
            self._shape(place, fields),
            self._take(place, fields, "checked", bool, False),
            self._take(place, fields, "reasons", bool, False),
            self._kind(place, fields),
            self._prefixes(place, fields),
            self._take(place, fields, "reasoning-budget", int, -1),
            self._take(place, fields, "reasoning-budget-message", str, ""),
            self._samplers(place, fields),
        )
        self._nothing_else(place, fields, (*Entry.__slots__, *formats()))
        return entry

    def _formats(self, fields: Mapping[str, object]) -> list[str]:
        """List the tables of weights, also for missing engines, unless a name is misspelt."""
        format_names = formats()
        return [
            key
            for key, value in fields.items()
            if key in format_names
            or (isinstance(value, dict) and "weights" in value and not misspelt(key, format_names))
        ]

    def _offer(self, place: tuple[str, ...], table: object) -> Offer:
        fields = self._table(place, table)
        drafter = self._take(place, fields, "drafter", str, "none")
        if drafter not in DRAFTERS:
            self._refuse(place, "drafter", f"is {drafter!r}; known: {', '.join(DRAFTERS)}")
        draft = self._take(place, fields, "draft", str, "")
        if bool(draft) == (drafter in NO_PARTS):
            need = "must be left away" if draft else "is missing"
            self._refuse(place, "draft", f"{need} where the drafter is {drafter!r}")
        original = self._take(place, fields, "draft-original", str, "")
        size = self._take(place, fields, "draft-size", str, "")
        draft_bytes = self._size(place, "draft-size", size) if size else 0
        if size and drafter not in HEADS:
            self._refuse(place, "draft-size", f"is of a head, and the drafter is {drafter!r}")
        projector, projector_bytes = self._projector(place, fields)
        listed = self._table((*place, "weights"), fields.pop("weights", {}))
        weights = {
            name: self._weights((*place, "weights", name), entry) for name, entry in listed.items()
        }
        if not weights:
            self._refuse(place, "", "has no weights")
        keys = ("drafter", "draft", "draft-original", "draft-size", "projector", "projector-size")
        self._nothing_else(place, fields, (*keys, "weights"))
        return Offer(weights, drafter, draft, original, draft_bytes, projector, projector_bytes)

    def _projector(self, place: tuple[str, ...], fields: dict[str, object]) -> tuple[str, int]:
        """Read the source of a projector, and its size."""
        projector = self._take(place, fields, "projector", str, "")
        size = self._take(place, fields, "projector-size", str, "")
        if projector and not size:
            self._refuse(place, "projector", "needs a projector-size beside it")
        if size and not projector:
            self._refuse(place, "projector-size", "is of a projector, and there is none")
        if projector:
            try:
                source(projector)
            except UsageError as error:
                self._refuse(place, "projector", f"is wrong: {error}")
        return projector, self._size(place, "projector-size", size) if size else 0

    def _size(self, place: tuple[str, ...], key: str, text: str) -> int:
        size = SIZE.fullmatch(text)
        if not size:
            self._refuse(place, key, f"is {text!r}; write it as 5.0GB or 98MB")
        return int(float(size[1]) * UNITS[size[2]])

    def _weights(self, place: tuple[str, ...], table: object) -> Weights:
        fields = self._table(place, table)
        size = self._size(place, "size", self._take(place, fields, "size", str))
        try:
            where = source(self._take(place, fields, "from", str))
        except UsageError as error:
            self._refuse(place, "from", f"is wrong: {error}")
        install = self._take(place, fields, "install", str, "")
        sums = self._words(place, fields, "sha256")
        self._nothing_else(place, fields, ("from", "size", "install", "sha256"))
        return Weights(where, size, install, tuple(sums))

    def _sampling(self, place: tuple[str, ...], fields: dict[str, object]) -> dict[str, float]:
        place = (*place, "sampling")
        table = self._table(place, fields.pop("sampling", {}))
        sampling = {
            name: float(self._take(place, table, name, (int, float)))
            for name in SAMPLING
            if name in table
        }
        self._nothing_else(place, table, SAMPLING)
        return sampling

    def _samplers(self, place: tuple[str, ...], fields: dict[str, object]) -> tuple[str, ...]:
        names = self._words(place, fields, "samplers")
        for name in names:
            if sampler_name(name) is None:
                choices = ", ".join(LETTERS.values())
                self._refuse(place, "samplers", f"has {name!r}; known: {choices}")
        return tuple(name for name in map(sampler_name, names) if name)

    def _kind(self, place: tuple[str, ...], fields: dict[str, object]) -> Kind:
        kind: Kind = self._take(place, fields, "kind", str, "text")
        if kind not in DOES:
            self._refuse(place, "kind", f"is {kind!r}; known: {', '.join(DOES)}")
        return kind

    def _prefixes(self, place: tuple[str, ...], fields: dict[str, object]) -> dict[str, str]:
        place = (*place, "prefixes")
        table = self._table(place, fields.pop("prefixes", {}))
        prefixes: dict[str, str] = {
            name: self._take(place, table, name, str) for name in PREFIXED if name in table
        }
        self._nothing_else(place, table, PREFIXED)
        return prefixes

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
        """Read a value of the right kind; without a default it must be there."""
        if key not in fields:
            if default is None:
                self._refuse(place, "", f"lacks {key!r}")
            return default
        value = fields.pop(key)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(one.__name__ for one in kinds)
            self._refuse(place, key, f"is {value!r}; it must be of type {names}")
        if isinstance(value, int | float) and value < 0:
            self._refuse(place, key, f"is {value!r}; it must not be negative")
        return value

    def _table(self, place: tuple[str, ...], value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            self._refuse(place, "", "must be a table")
        return dict(value)

    def _nothing_else(
        self, place: tuple[str, ...], fields: Mapping[str, object], keys: Sequence[str]
    ) -> None:
        for key in fields:
            close = get_close_matches(key, keys, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(keys)}"
            self._refuse(place, key, f"is not known; {hint}")

    def _refuse(self, place: tuple[str, ...], key: str, fault: str) -> NoReturn:
        named = ".".join(place)
        line = self._line(place, key)
        where = f"{self._path}, line {line}" if line else str(self._path)
        fault = f"key {key!r} {fault}" if key else fault
        raise UsageError(f"{where}: {named}: {fault}")

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

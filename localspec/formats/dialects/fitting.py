"""Whether a value follows a JSON schema: its kinds, members, choices, listed values and bounds.

Patterns, formats and conditions are not looked at: a call with an odd text is still a call. The
time grows with the value times the schema, whatever the schema refers to, up to a bound.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from localspec.formats.dialects.schemas import referred
from localspec.formats.templates.message import Json


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Json) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value % 1 == 0


KINDS: Mapping[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_whole,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
MAX_CHECKS = 50_000  # of a value and a schema: 0.2 s, for which a server's streams pause
SIZES = {"Length": "string", "Items": "array", "Properties": "object"}  # after "min" and "max"


def fits(value: Json, schema: Mapping[str, Json]) -> bool:
    """Return whether a value follows a schema; where that takes too long, it does not."""
    try:
        return _Fitting(schema).fits(value, schema)
    except (RecursionError, _TooManyChecks):
        return False


class _TooManyChecks(Exception):
    pass


@dataclass(slots=True)
class _Fitting:
    root: Mapping[str, Json]
    _results: dict[tuple[int, int], bool] = field(default_factory=dict)
    _checks: int = 0

    def fits(self, value: Json, schema: Json) -> bool:
        if not isinstance(schema, Mapping):
            return schema is not False
        pair = id(value), id(schema)
        if pair not in self._results:
            self._count(schema)
            self._results[pair] = True  # for a reference that leads back to here
            self._results[pair] = all(self._rules(value, schema))
        return self._results[pair]

    def _count(self, schema: Mapping[str, Json]) -> None:
        lists = _items(schema.get("enum")), _items(schema.get("required"))
        self._checks += 1 + sum(map(len, lists))
        if self._checks > MAX_CHECKS:
            raise _TooManyChecks

    def _rules(self, value: Json, schema: Mapping[str, Json]) -> Iterator[bool]:
        yield _is_of_kind(value, schema.get("type"))
        if listed := _items(schema.get("enum")):
            yield any(_equal(value, listed_value) for listed_value in listed)
        if "const" in schema:
            yield _equal(value, schema["const"])
        yield from _within_bounds(value, schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield self.fits(value, referred(reference, self.root))
        for branch in _items(schema.get("allOf")):
            yield self.fits(value, branch)
        for branches in (_items(schema.get("anyOf")), _items(schema.get("oneOf"))):
            yield not branches or any(self.fits(value, branch) for branch in branches)
        if isinstance(value, Mapping):
            yield from self._members(value, schema)
        elif isinstance(value, list):
            first = _items(schema.get("prefixItems"))
            further = [schema.get("items")] * (len(value) - len(first))
            yield all(map(self.fits, value, [*first, *further]))

    def _members(self, value: Mapping[str, Json], schema: Mapping[str, Json]) -> Iterator[bool]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        yield all(name in value for name in _items(schema.get("required")))
        others = None if "patternProperties" in schema else schema.get("additionalProperties")
        for name, member in value.items():
            yield self.fits(member, properties.get(name, others))


def _is_of_kind(value: Json, kinds: Json) -> bool:
    """Whether a value is of one of these kinds; names that no kind has allow anything."""
    names = [kinds] if isinstance(kinds, str) else _items(kinds)
    checks = [KINDS.get(name) if isinstance(name, str) else None for name in names]
    return not checks or any(check is None or check(value) for check in checks)


def _equal(value: Json, other: Json) -> bool:
    """Compare as JSON does, in which true is not 1."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        members = value.keys() == other.keys()
        return members and all(_equal(member, other[name]) for name, member in value.items())
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_equal, value, other))
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _within_bounds(value: Json, schema: Mapping[str, Json]) -> Iterator[bool]:
    bounds = {name: bound for name, bound in schema.items() if isinstance(bound, int | float)}
    if isinstance(value, int | float) and _is_number(value):
        for name, holds in BOUNDS.items():
            yield name not in bounds or holds(value, bounds[name])
    elif isinstance(value, str | Sequence | Mapping):
        size = next(size for size, kind in SIZES.items() if KINDS[kind](value))
        least, most = bounds.get(f"min{size}", 0), bounds.get(f"max{size}", len(value))
        yield least <= len(value) <= most


def _items(listed: Json) -> Sequence[Json]:
    return listed if isinstance(listed, list) else ()

"""Values as elements: objects and lists nested as arguments are, each closed with its own key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, matching, quoted, schema
from localspec.dialects.layout import Fields
from localspec.dialects.tape import Reading, Tape
from localspec.dialects.values import kinds, strings, value
from localspec.templates.message import Json

DEEPEST = 64  # elements within one another that are read, or written by a schema
NAME = re.compile(r"[^\s<>]+")
STRING, LIST, OBJECT = (frozenset({kind}) for kind in ("string", "array", "object"))


def element(
    tape: Tape, fields: Fields, key: str, wanted: Mapping[str, Json], depth: int = 0
) -> Reading[str | None]:
    """Read a value and its end; return it as JSON, or nothing where it is not written so."""
    end, opening = _end(fields, key), fields.shared + fields.key
    allowed = kinds(wanted)
    if allowed == STRING or depth == DEEPEST:
        return (yield from _text(tape, end, wanted))
    if (yield from tape.starts(end)):
        return {LIST: "[]", OBJECT: "{}"}.get(allowed or STRING, value("", wanted))
    if not (yield from tape.starts(opening)):
        return (yield from _text(tape, end, wanted))
    members: list[tuple[str, str]] = []
    while True:
        name = yield from tape.run(NAME)
        if not (yield from tape.starts(fields.middles[0].text)):
            return None
        inner = _within(wanted, name, fields.item)
        found = yield from element(tape, fields, name, inner, depth + 1)
        if found is None:
            return None
        members.append((name, found))
        yield from tape.blank()
        if (yield from tape.starts(end)):
            return _joined(members, fields.item, allowed)
        if not (yield from tape.starts(opening)):
            return None


def _end(fields: Fields, key: str) -> str:
    return fields.of(key).end.removesuffix(fields.shared)


def _text(tape: Tape, end: str, wanted: Mapping[str, Json]) -> Reading[str | None]:
    found: list[str] = []
    whole = yield from tape.until((end,), found.append)
    return value("".join(found), wanted) if whole else None


def _within(wanted: Mapping[str, Json], name: str, item: str | None) -> Mapping[str, Json]:
    """The schema of a member, where it is told."""
    members, items = wanted.get("properties"), wanted.get("items")
    found = members.get(name) if isinstance(members, Mapping) else None
    if found is None and name == item:
        found = items
    return found if isinstance(found, Mapping) else {}


def _joined(
    members: Sequence[tuple[str, str]], item: str | None, allowed: frozenset[str] | None
) -> str:
    """Join members to a list if all are items, else to an object."""
    if allowed != OBJECT and all(name == item for name, _ in members):
        return "[" + ", ".join(found for _, found in members) + "]"
    return "{" + ", ".join(f"{json.dumps(name)}: {found}" for name, found in members) + "}"


@dataclass(frozen=True, slots=True)
class Elements:
    """Writes elements as a grammar."""

    lark: Lark
    fields: Fields
    function: Function

    def element(self, key: str, wanted: Mapping[str, Json], depth: int = 0) -> str:
        """An expression for a value and its end; what a schema does not tell is any text."""
        end, allowed = _end(self.fields, key), kinds(wanted)
        if listed := strings(wanted):
            return f"{choice([quoted(each) for each in listed])} {self.lark.literal(end)}"
        if allowed is None or "string" in allowed or depth == DEEPEST:
            return matching(self.lark, wanted, end) or self.lark.upto(end)
        members, items = wanted.get("properties"), wanted.get("items")
        if allowed == OBJECT and isinstance(members, Mapping):
            required = wanted.get("required")
            needed = required if isinstance(required, Sequence) else ()
            found = [
                self._member(name, each, depth) + ("" if name in needed else "?")
                for name, each in members.items()
            ]
            return f"{' '.join(found)} {self.lark.literal(end)}"
        if allowed == LIST and self.fields.item is not None:
            return f"{self._member(self.fields.item, items, depth)}* {self.lark.literal(end)}"
        if allowed & {*OBJECT, *LIST}:
            return self.lark.upto(end)
        return f"{schema(wanted, self.function)} {self.lark.literal(end)}"

    def _member(self, name: str, wanted: Json, depth: int) -> str:
        head = self.fields.shared + self.fields.key + name + self.fields.middles[0].text
        inner = wanted if isinstance(wanted, Mapping) else {}
        written = self.element(name, inner, depth + 1)
        return self.lark.rule(f"{self.lark.literal(head)} {written}")

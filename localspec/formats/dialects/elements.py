"""Values as elements: objects and lists nested as arguments are, each closed with its own key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localspec.formats.dialects.lark import Lark, choice, json_value, matching, quoted
from localspec.formats.dialects.layout import Fields
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.text_stream import Reading, TextStream
from localspec.formats.dialects.values import kinds, strings, value
from localspec.formats.templates.message import Json

MAX_DEPTH = 64  # elements within one another that are read, or written by a schema
NAME = re.compile(r"[^\s<>]+")
STRING, LIST, OBJECT = (frozenset({kind}) for kind in ("string", "array", "object"))


def element(
    stream: TextStream, fields: Fields, key: str, schema: Mapping[str, Json], depth: int = 0
) -> Reading[str | None]:
    """Read a value and its end; return it as JSON, or None if it is not written as elements."""
    end, opening = _end(fields, key), fields.shared + fields.key
    allowed = kinds(schema)
    if allowed == STRING or depth == MAX_DEPTH:
        return (yield from _text(stream, end, schema))
    if (yield from stream.starts(end)):
        return {LIST: "[]", OBJECT: "{}"}.get(allowed or STRING, value("", schema))
    if not (yield from stream.starts(opening)):
        return (yield from _text(stream, end, schema))
    members: list[tuple[str, str]] = []
    while True:
        name = yield from stream.run(NAME)
        if not (yield from stream.starts(fields.middles[0].text)):
            return None
        inner = _within(schema, name, fields.item)
        member = yield from element(stream, fields, name, inner, depth + 1)
        if member is None:
            return None
        members.append((name, member))
        yield from stream.blank()
        if (yield from stream.starts(end)):
            return _joined(members, fields.item, allowed)
        if not (yield from stream.starts(opening)):
            return None


def _end(fields: Fields, key: str) -> str:
    return fields.for_key(key).end.removesuffix(fields.shared)


def _text(stream: TextStream, end: str, schema: Mapping[str, Json]) -> Reading[str | None]:
    text_pieces: list[str] = []
    whole = yield from stream.until((end,), text_pieces.append)
    return value("".join(text_pieces), schema) if whole else None


def _within(schema: Mapping[str, Json], name: str, item: str | None) -> Mapping[str, Json]:
    """Return the schema of a member; an empty one if there is none."""
    members, items = schema.get("properties"), schema.get("items")
    member = members.get(name) if isinstance(members, Mapping) else None
    if member is None and name == item:
        member = items
    return member if isinstance(member, Mapping) else {}


def _joined(
    members: Sequence[tuple[str, str]], item: str | None, allowed: frozenset[str] | None
) -> str:
    """Join members to a list if all are items, else to an object."""
    if allowed != OBJECT and all(name == item for name, _ in members):
        return "[" + ", ".join(value for _, value in members) + "]"
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in members) + "}"


@dataclass(frozen=True, slots=True)
class Elements:
    """Writes elements as a grammar."""

    lark: Lark
    fields: Fields
    tool: OfferedTool

    def element(self, key: str, schema: Mapping[str, Json], depth: int = 0) -> str:
        """Return an expression for a value and its end; a value of no known kind is any text."""
        end, allowed = _end(self.fields, key), kinds(schema)
        if listed := strings(schema):
            return f"{choice([quoted(text) for text in listed])} {self.lark.literal(end)}"
        if allowed is None or "string" in allowed or depth == MAX_DEPTH:
            return matching(self.lark, schema, end) or self.lark.upto(end)
        members, items = schema.get("properties"), schema.get("items")
        if allowed == OBJECT and isinstance(members, Mapping):
            required = schema.get("required")
            needed = required if isinstance(required, Sequence) else ()
            rules = [
                self._member(name, member, depth) + ("" if name in needed else "?")
                for name, member in members.items()
            ]
            return f"{' '.join(rules)} {self.lark.literal(end)}"
        if allowed == LIST and self.fields.item is not None:
            return f"{self._member(self.fields.item, items, depth)}* {self.lark.literal(end)}"
        if allowed & {*OBJECT, *LIST}:
            return self.lark.upto(end)
        return f"{json_value(schema, self.tool)} {self.lark.literal(end)}"

    def _member(self, name: str, schema: Json, depth: int) -> str:
        head = self.fields.shared + self.fields.key + name + self.fields.middles[0].text
        inner = schema if isinstance(schema, Mapping) else {}
        written = self.element(name, inner, depth + 1)
        return self.lark.rule(f"{self.lark.literal(head)} {written}")

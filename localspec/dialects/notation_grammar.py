"""Grammars for values that are JSON but for its quotes and words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, matching, quoted, schema, separated
from localspec.dialects.values import strings
from localspec.templates.message import Json

NOTHING: Mapping[str, Json] = MappingProxyType({})
DEEP = 64  # schemas within one another; below them any value is allowed
PLAIN = {"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref"}
PLAIN |= {"description", "title", "default", "examples", "additionalProperties", "$defs"}
# Within single quotes, a quote that no sign follows is a letter: some templates escape none.
SINGLE = r"""/'([^'\\]|\\(?s:.)|('[ \t\r\n]*)+([^',:)\]}\\ \t\r\n]|\\(?s:.)))*'/"""
ANY_STRING = f"""(%json {{"type": "string"}} | {SINGLE})"""


@dataclass(frozen=True, slots=True)
class Notation:
    """Values as they are written: with `quotes` and bare keys, or else as Python writes them."""

    lark: Lark
    function: Function
    quotes: tuple[str, str] | None = None
    in_order: bool = False  # whether keys are in the order of the alphabet

    def value(self, wanted: Mapping[str, Json]) -> str:
        """An expression for what a schema allows."""
        return _Writer(self, {}).value(wanted, 0)

    @property
    def comma(self) -> str:
        return quoted("," if self.quotes else ", ")

    def string(self, text: str | None = None, pattern: Mapping[str, Json] = NOTHING) -> str:
        """An expression for this string, or for any that a schema's pattern allows."""
        if self.quotes is None:
            return (
                ANY_STRING
                if text is None
                else f"({quoted(json.dumps(text))} | {quoted(repr(text))})"
            )
        opening, closing = self.quotes
        if text is None:
            said = matching(self.lark, pattern, closing) or self.lark.upto(closing)
            return f"{self.lark.literal(opening)} {said}"
        return f"{self.lark.literal(opening)} {quoted(text)} {self.lark.literal(closing)}"

    def key(self, name: str) -> str:
        if self.quotes:
            return quoted(f"{name}:")
        return f'{self.string(name)} ": "'

    def word(self, wanted: Mapping[str, Json]) -> str:
        """An expression for a number or another value that is one word."""
        words = {"boolean": '("True" | "False")', "null": '"None"'}
        kind = wanted.get("type")
        if self.quotes and kind == "null":
            return '("null" | "None")'  # as templates write it that do not care
        if self.quotes is None and isinstance(kind, str) and kind in words:
            return words[kind]
        return schema(wanted, self.function)

    def any(self) -> str:
        """The name of a rule for any value."""
        key = 'KEY ":"' if self.quotes else f'{ANY_STRING} ": "'
        words = [self.word({"type": kind}) for kind in ("number", "boolean", "null")]
        comma = self.comma
        self.lark.named("pair", f"{key} any")
        members = f'"{{" (pair ({comma} pair)*)? "}}" | "[" (any ({comma} any)*)? "]"'
        self.lark.named("any", f"{self.string()} | {members} | {' | '.join(words)}")
        return "any"


def is_plain(wanted: Json) -> bool:
    """Whether a schema asks for nothing but what a notation can hold to."""
    if not isinstance(wanted, Mapping):
        return True
    members, listed = wanted.get("properties"), wanted.get("anyOf", wanted.get("oneOf"))
    inner: list[Json] = [wanted.get("items")]
    inner += members.values() if isinstance(members, Mapping) else ()
    inner += listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
    return wanted.keys() <= PLAIN and all(map(is_plain, inner))


@dataclass(frozen=True, slots=True)
class _Writer:
    notation: Notation
    references: dict[str, str]  # rules by what they stand for

    def value(self, wanted: Mapping[str, Json], depth: int) -> str:
        notation = self.notation
        if depth > DEEP:
            return notation.any()
        if listed := strings(wanted):
            return choice([notation.string(each) for each in listed])
        match wanted:
            case {"$ref": str(place)}:
                return self._reference(place, depth)
            case {"enum": _} | {"const": _}:
                return schema(wanted, notation.function)
            case {"anyOf": [*branches]} | {"oneOf": [*branches]}:
                return choice([self._member(each, depth) for each in branches] or [notation.any()])
            case {"type": [*types]}:
                return choice([self.value({**wanted, "type": t}, depth + 1) for t in types])
            case {"type": "string"}:
                return notation.string(pattern=wanted)
            case {"type": "integer" | "number" | "boolean" | "null"}:
                return notation.word(wanted)
        members, items = wanted.get("properties"), wanted.get("items")
        if wanted.get("type") == "object" and isinstance(members, Mapping) and members:
            return self._object(wanted, members, depth)
        if wanted.get("type") == "array" and isinstance(items, Mapping):
            return self._list(self.value(items, depth + 1), wanted)
        return notation.any()

    def _reference(self, place: str, depth: int) -> str:
        if place not in self.references:
            found: Json = self.notation.function.schema
            for name in place.removeprefix("#").split("/")[1:]:
                found = found.get(name) if isinstance(found, Mapping) else None
            self.references[place] = rule = self.notation.lark.reserved()
            self.notation.lark.fill(rule, self._member(found, depth))
        return self.references[place]

    def _member(self, wanted: Json, depth: int) -> str:
        if isinstance(wanted, Mapping):
            return self.value(wanted, depth + 1)
        return self.notation.any()

    def _object(self, wanted: Mapping[str, Json], members: Mapping[str, Json], depth: int) -> str:
        """An expression for members in the order of the schema, commas between them."""
        listed = wanted.get("required")
        required = listed if isinstance(listed, Sequence) else ()
        found = sorted(members.items()) if self.notation.in_order else members.items()
        each = [
            (name in required, f"{self.notation.key(name)} {self._member(schema, depth)}")
            for name, schema in found
        ]
        return f'"{{" {separated(self.notation.lark, self.notation.comma, each)} "}}"'

    def _list(self, item: str, wanted: Mapping[str, Json]) -> str:
        least, most = wanted.get("minItems", 0), wanted.get("maxItems")
        item, comma = self.notation.lark.rule(item), self.notation.comma
        least = least if isinstance(least, int) else 0
        if isinstance(most, int) and most < 1:
            return '"[" "]"'
        upper = most - 1 if isinstance(most, int) else ""
        items = f"{item} ({comma} {item}){{{max(least - 1, 0)},{upper}}}"
        return f'"[" {items} "]"' if least > 0 else f'"[" ({items})? "]"'

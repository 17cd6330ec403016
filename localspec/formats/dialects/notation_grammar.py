"""Grammars for values that are JSON but for its quotes and words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from localspec.formats.dialects.lark import Lark, choice, json_value, matching, quoted, separated
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.schemas import referred
from localspec.formats.dialects.values import strings
from localspec.formats.templates.message import Json

NOTHING: Mapping[str, Json] = MappingProxyType({})
MAX_DEPTH = 64  # schemas within one another; below them any value is allowed
PLAIN = {"type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "$ref"}
PLAIN |= {"description", "title", "default", "examples", "additionalProperties", "$defs"}
# Within single quotes, a quote that no sign follows is a letter: some templates escape none.
SINGLE = r"""/'([^'\\]|\\(?s:.)|('[ \t\r\n]*)+([^',:)\]}\\ \t\r\n]|\\(?s:.)))*'/"""
ANY_STRING = f"""(%json {{"type": "string"}} | {SINGLE})"""


@dataclass(frozen=True, slots=True)
class Notation:
    """Values as they are written: with `quotes` and bare keys, or else as Python writes them."""

    lark: Lark
    tool: OfferedTool
    quotes: tuple[str, str] | None = None
    in_order: bool = False  # whether keys are in the order of the alphabet

    def value(self, schema: Mapping[str, Json]) -> str:
        """An expression for what a schema allows."""
        return _Writer(self, {}).value(schema, 0)

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
            text_rule = matching(self.lark, pattern, closing) or self.lark.upto(closing)
            return f"{self.lark.literal(opening)} {text_rule}"
        return f"{self.lark.literal(opening)} {quoted(text)} {self.lark.literal(closing)}"

    def key(self, name: str) -> str:
        if self.quotes:
            return quoted(f"{name}:")
        return f'{self.string(name)} ": "'

    def word(self, schema: Mapping[str, Json]) -> str:
        """An expression for a number or another value that is one word."""
        words = {"boolean": '("True" | "False")', "null": '"None"'}
        kind = schema.get("type")
        if self.quotes and kind == "null":
            return '("null" | "None")'  # as templates write it that do not care
        if self.quotes is None and isinstance(kind, str) and kind in words:
            return words[kind]
        return json_value(schema, self.tool)

    def any(self) -> str:
        """The name of a rule for any value."""
        key = 'KEY ":"' if self.quotes else f'{ANY_STRING} ": "'
        words = [self.word({"type": kind}) for kind in ("number", "boolean", "null")]
        comma = self.comma
        self.lark.named("pair", f"{key} any")
        members = f'"{{" (pair ({comma} pair)*)? "}}" | "[" (any ({comma} any)*)? "]"'
        self.lark.named("any", f"{self.string()} | {members} | {' | '.join(words)}")
        return "any"


def is_plain(schema: Json) -> bool:
    """Whether a schema asks for nothing but what a notation can hold to."""
    if not isinstance(schema, Mapping):
        return True
    members, listed = schema.get("properties"), schema.get("anyOf", schema.get("oneOf"))
    inner: list[Json] = [schema.get("items")]
    inner += members.values() if isinstance(members, Mapping) else ()
    inner += listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
    return schema.keys() <= PLAIN and all(map(is_plain, inner))


@dataclass(frozen=True, slots=True)
class _Writer:
    notation: Notation
    references: dict[str, str]  # rules by what they stand for

    def value(self, schema: Mapping[str, Json], depth: int) -> str:
        notation = self.notation
        if depth > MAX_DEPTH:
            return notation.any()
        if listed := strings(schema):
            return choice([notation.string(text) for text in listed])
        match schema:
            case {"$ref": str(place)}:
                return self._reference(place, depth)
            case {"enum": _} | {"const": _}:
                return json_value(schema, notation.tool)
            case {"anyOf": [*branches]} | {"oneOf": [*branches]}:
                options = [self._member(branch, depth) for branch in branches]
                return choice(options or [notation.any()])
            case {"type": [*types]}:
                return choice([self.value({**schema, "type": t}, depth + 1) for t in types])
            case {"type": "string"}:
                return notation.string(pattern=schema)
            case {"type": "integer" | "number" | "boolean" | "null"}:
                return notation.word(schema)
        members, items = schema.get("properties"), schema.get("items")
        if schema.get("type") == "object" and isinstance(members, Mapping) and members:
            return self._object(schema, members, depth)
        if schema.get("type") == "array" and isinstance(items, Mapping):
            return self._list(self.value(items, depth + 1), schema)
        return notation.any()

    def _reference(self, place: str, depth: int) -> str:
        if place not in self.references:
            self.references[place] = rule = self.notation.lark.reserved()
            referred_schema = referred(place, self.notation.tool.schema)
            self.notation.lark.fill(rule, self._member(referred_schema, depth))
        return self.references[place]

    def _member(self, schema: Json, depth: int) -> str:
        if isinstance(schema, Mapping):
            return self.value(schema, depth + 1)
        return self.notation.any()

    def _object(self, schema: Mapping[str, Json], members: Mapping[str, Json], depth: int) -> str:
        """An expression for members in the order of the schema, commas between them."""
        listed = schema.get("required")
        required = listed if isinstance(listed, Sequence) else ()
        ordered = sorted(members.items()) if self.notation.in_order else members.items()
        pairs = [
            (name in required, f"{self.notation.key(name)} {self._member(member, depth)}")
            for name, member in ordered
        ]
        return f'"{{" {separated(self.notation.lark, self.notation.comma, pairs)} "}}"'

    def _list(self, item: str, schema: Mapping[str, Json]) -> str:
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        item, comma = self.notation.lark.rule(item), self.notation.comma
        least = least if isinstance(least, int) else 0
        if isinstance(most, int) and most < 1:
            return '"[" "]"'
        upper = most - 1 if isinstance(most, int) else ""
        items = f"{item} ({comma} {item}){{{max(least - 1, 0)},{upper}}}"
        return f'"[" {items} "]"' if least > 0 else f'"[" ({items})? "]"'

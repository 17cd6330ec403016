"""Schemas of tools as clients write them, repaired for templates and grammars."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from localspec.formats.dialects.scanner import MAX_DEPTH
from localspec.formats.grammar.compile_trial import fault_of_schema
from localspec.formats.templates.message import Json, Tool

KINDS = {"object", "array", "string", "number", "integer", "boolean", "null"}
ALSO = {
    **dict.fromkeys(("str", "text", "char"), "string"),
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("dict", "map", "record"), "object"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("none", "nil"), "null"),
}
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
WITHIN = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
CHOICES = ("anyOf", "oneOf", "allOf", "prefixItems")
NUMBERS = ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
SOURCES = ("$schema", "$id", "id")  # addresses, which nothing here looks up


def repair_tool(tool: Tool) -> Tool:
    """Return a tool whose parameters are a valid schema; a strict tool stays as it is."""
    function = tool.get("function")
    if not isinstance(function, Mapping) or function.get("strict") is True:
        return tool
    parameters = function.get("parameters")
    if not isinstance(parameters, Mapping):
        return tool
    try:
        repaired = {**_repaired(parameters, parameters), "type": _outermost(parameters)}
    except RecursionError:
        return tool  # which is refused for it
    return {**tool, "function": {**function, "parameters": repaired}}


def _outermost(parameters: Mapping[str, Json]) -> Json:
    """The kind of all parameters: an object, unless it is clearly something else."""
    kind = _kind(parameters.get("type"))
    if isinstance(kind, str) and kind != "null" and "properties" not in parameters:
        return kind
    return "object"


def _repaired(schema: Json, root: Mapping[str, Json], depth: int = 0) -> dict[str, Json]:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}
    repaired: dict[str, Json] = {}
    for name, value in schema.items():
        kept = _keyword(name, value, root, depth + 1)
        if kept is not None:
            repaired[name] = kept
    if schema.get("nullable") is True and isinstance(repaired.get("type"), str):
        repaired["type"] = [repaired["type"], "null"]
    return repaired


def _keyword(name: str, value: Json, root: Mapping[str, Json], depth: int) -> Json:
    """Return the repaired value of a keyword; None leaves the keyword out."""
    if name in MAPS:
        members = value if isinstance(value, Mapping) else {}
        return {key: _schema(member, root, depth) for key, member in members.items()}
    if name in WITHIN:
        return _schema(value, root, depth) if isinstance(value, Mapping | bool) else None
    if name in CHOICES:
        listed = value if isinstance(value, list) else []
        return [_schema(member, root, depth) for member in listed] or None
    read = READ.get(name)
    if read:
        return read(value)
    if name == "$ref":
        leads = isinstance(value, str) and referred(value, root) is not None
        return value if leads else None
    return value


def _schema(schema: Json, root: Mapping[str, Json], depth: int) -> Json:
    return schema if isinstance(schema, bool) else _repaired(schema, root, depth)


def _kind(kind: Json) -> Json:
    """Return the standard names of kinds; None if one is unknown, so that any is allowed."""
    if isinstance(kind, list):
        kinds = [_kind(name) for name in kind]
        return None if None in kinds or not kinds else kinds
    word = kind.lower() if isinstance(kind, str) else ""
    known_kind = ALSO.get(word, word)
    return known_kind if known_kind in KINDS else None


def _names(listed: Json) -> Json:
    """Names of parameters that are required."""
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return list(dict.fromkeys(names)) or None


def _number(value: Json) -> Json:
    """A number, also where a form wrote it as a text."""
    try:
        number = float(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        if not math.isfinite(number):
            return None
    except (ValueError, OverflowError):  # no number, or one with hundreds of digits
        return None
    return int(number) if number == int(number) else number


def _count(value: Json) -> Json:
    number = _number(value)
    return number if isinstance(number, int) and number >= 0 else None


def _listed(listed: Json) -> Json:
    return listed if isinstance(listed, list) and listed else None


def _nothing(_: Json) -> Json:
    return None


READ: Mapping[str, Callable[[Json], Json]] = {
    "type": _kind,
    "required": _names,
    "enum": _listed,
    **dict.fromkeys(NUMBERS, _number),
    **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(SOURCES, _nothing),
}


def referred(place: str, root: Mapping[str, Json]) -> Json:
    """Return the part of a schema that a reference leads to; None where it leads nowhere."""
    part: Json = root
    if not place.startswith("#"):
        return None
    for name in place.removeprefix("#").split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, Mapping) or key not in part:
            return None
        part = part[key]
    return part


@lru_cache(maxsize=512)
def followable(schema: str) -> bool:
    """Whether the grammar engine can follow a schema, or most of it."""
    try:
        return not fault_of_schema(schema, {"lenient": True})
    except ValueError:  # nested deeper than it reads
        return False

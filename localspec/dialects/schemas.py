"""Schemas of tools as clients write them, in words that templates and grammars can follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from localspec.dialects.scanner import DEEPEST
from localspec.grammar.compile_trial import fault_of_schema
from localspec.templates.message import Json, Tool

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


def mended(tool: Tool) -> Tool:
    """A tool whose parameters are a schema, whatever its client made of one; strict ones stay."""
    function = tool.get("function")
    if not isinstance(function, Mapping) or function.get("strict") is True:
        return tool
    given = function.get("parameters")
    if not isinstance(given, Mapping):
        return tool
    try:
        found = {**_mended(given, given), "type": _outermost(given)}
    except RecursionError:
        return tool  # which is refused for it
    return {**tool, "function": {**function, "parameters": found}}


def _outermost(given: Mapping[str, Json]) -> Json:
    """The kind of all parameters: an object, unless it is clearly something else."""
    kind = _kind(given.get("type"))
    if isinstance(kind, str) and kind != "null" and "properties" not in given:
        return kind
    return "object"


def _mended(given: Json, root: Mapping[str, Json], depth: int = 0) -> dict[str, Json]:
    if not isinstance(given, Mapping) or depth > DEEPEST:
        return {}
    found: dict[str, Json] = {}
    for name, value in given.items():
        kept = _keyword(name, value, root, depth + 1)
        if kept is not None:
            found[name] = kept
    if given.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _keyword(name: str, value: Json, root: Mapping[str, Json], depth: int) -> Json:
    """The value of a keyword as it has to be; None leaves the keyword out."""
    if name in MAPS:
        members = value if isinstance(value, Mapping) else {}
        return {key: _schema(each, root, depth) for key, each in members.items()}
    if name in WITHIN:
        return _schema(value, root, depth) if isinstance(value, Mapping | bool) else None
    if name in CHOICES:
        listed = value if isinstance(value, list) else []
        return [_schema(each, root, depth) for each in listed] or None
    read = READ.get(name)
    if read:
        return read(value)
    if name == "$ref":
        leads = isinstance(value, str) and referred(value, root) is not None
        return value if leads else None
    return value


def _schema(given: Json, root: Mapping[str, Json], depth: int) -> Json:
    return given if isinstance(given, bool) else _mended(given, root, depth)


def _kind(given: Json) -> Json:
    """Kinds by their names; None where one is not known, for then it may be any."""
    if isinstance(given, list):
        kinds = [_kind(each) for each in given]
        return None if None in kinds or not kinds else kinds
    word = given.lower() if isinstance(given, str) else ""
    found = ALSO.get(word, word)
    return found if found in KINDS else None


def _names(given: Json) -> Json:
    """Names of parameters that are required."""
    names = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
    return list(dict.fromkeys(names)) or None


def _number(given: Json) -> Json:
    """A number, also where a form wrote it as a text."""
    try:
        found = float(given) if isinstance(given, str) else given
    except ValueError:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return int(found) if found == int(found) else found


def _count(given: Json) -> Json:
    found = _number(given)
    return found if isinstance(found, int) and found >= 0 else None


def _listed(given: Json) -> Json:
    return given if isinstance(given, list) and given else None


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
    found: Json = root
    if not place.startswith("#"):
        return None
    for name in place.removeprefix("#").split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found


@lru_cache(maxsize=512)
def followable(schema: str) -> bool:
    """Whether the grammar engine can follow a schema, or most of it."""
    try:
        return not fault_of_schema(schema, {"lenient": True})
    except ValueError:  # nested deeper than it reads
        return False

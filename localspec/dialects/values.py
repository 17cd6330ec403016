"""Parameters that a model wrote as plain text, as what their schemas say they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from localspec.dialects.scanner import as_json
from localspec.templates.message import Json

KINDS = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
EVERY = frozenset({*KINDS.values(), "number"})


def kinds(schema: Mapping[str, Json]) -> frozenset[str] | None:
    """The kinds of values a schema allows; None where it does not say so in simple words."""
    if strings(schema):
        return frozenset({"string"})
    said = schema.get("type")
    if schema.keys() & {"enum", "const", "allOf", "$ref"}:
        return None
    if said is not None:
        listed = [said] if isinstance(said, str) else said if isinstance(said, Sequence) else ()
        return frozenset("number" if each == "integer" else str(each) for each in listed)
    branches = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(branches, Sequence):
        return EVERY
    found = [kinds(each) if isinstance(each, Mapping) else EVERY for each in branches]
    return None if None in found else frozenset().union(*(each or () for each in found))


def strings(schema: Mapping[str, Json]) -> Sequence[str]:
    """All values that a schema allows, if they are listed and strings."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    values = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
    found = [each for each in values if isinstance(each, str)]
    return found if len(found) == len(values) else ()


def value(text: str, schema: Mapping[str, Json]) -> str:
    """JSON for a text: what it says where that is allowed, and else the text itself.

    Where strings are allowed, quotes are part of them.
    """
    allowed = kinds(schema)
    found = as_json(text) if allowed != frozenset({"string"}) else None
    plain = json.dumps(text, ensure_ascii=False)
    if found is None or allowed is None or "string" not in allowed:
        return found or plain
    kind = KINDS.get(found[0], "number")
    return found if kind in allowed - {"string"} else plain

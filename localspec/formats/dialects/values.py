"""Parameters that a model wrote as plain text, as what their schemas say they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from localspec.formats.dialects.scanner import as_json
from localspec.formats.templates.message import Json

KINDS = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
EVERY = frozenset({*KINDS.values(), "number"})


def kinds(schema: Mapping[str, Json]) -> frozenset[str] | None:
    """Return the kinds of values that a schema allows; None if it does not list them."""
    if strings(schema):
        return frozenset({"string"})
    types = schema.get("type")
    if schema.keys() & {"enum", "const", "allOf", "$ref"}:
        return None
    if types is not None:
        listed = [types] if isinstance(types, str) else types if isinstance(types, Sequence) else ()
        return frozenset("number" if kind == "integer" else str(kind) for kind in listed)
    branches = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(branches, Sequence):
        return EVERY
    by_branch = [kinds(branch) if isinstance(branch, Mapping) else EVERY for branch in branches]
    if None in by_branch:
        return None
    return frozenset().union(*(allowed or () for allowed in by_branch))


def strings(schema: Mapping[str, Json]) -> Sequence[str]:
    """Return the strings that a schema lists, if it allows nothing else."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    values = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
    texts = [value for value in values if isinstance(value, str)]
    return texts if len(texts) == len(values) else ()


def value(text: str, schema: Mapping[str, Json]) -> str:
    """Return a text as JSON: as the value it spells if that is allowed, else as a string.

    Where strings are allowed, quotes are part of them.
    """
    allowed = kinds(schema)
    as_value = as_json(text) if allowed != frozenset({"string"}) else None
    plain = json.dumps(text, ensure_ascii=False)
    if as_value is None or allowed is None or "string" not in allowed:
        return as_value or plain
    kind = KINDS.get(as_value[0], "number")
    return as_value if kind in allowed - {"string"} else plain

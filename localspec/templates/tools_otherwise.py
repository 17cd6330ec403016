"""Tools for chat templates that refuse them as they are: under other names, or told in full."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from localspec.templates.message import Json, Tool

SIMPLE: Json = {"type": ["string", "number", "boolean"]}  # what templates can say in a word
ABSENT = {"object": "additionalProperties", "array": "items"}


def told_otherwise(tools: Sequence[Tool]) -> dict[str, Json]:
    """Variables that some templates want: a text named functions, a date, and schemas in full."""
    functions = [tool.get("function") for tool in tools]
    found: dict[str, Json] = {"functions": json.dumps(functions, indent=4, ensure_ascii=False)}
    found["datetime"] = datetime.now().strftime("%Y-%m-%d")
    found["tools"] = [in_full(dict(tool)) for tool in tools]  # some list none, too
    return found


def in_full(schema: Json) -> Json:
    """Add what a schema leaves open, where templates read it without asking whether it is there."""
    match schema:
        case dict():
            found = {name: in_full(value) for name, value in schema.items()}
            kind = schema.get("type")
            if not isinstance(kind, str):
                return found
            absent = {ABSENT[kind]: SIMPLE} if kind in ABSENT else {}
            return {"description": "", **absent, **found}
        case list():
            return [in_full(each) for each in schema]
    return schema

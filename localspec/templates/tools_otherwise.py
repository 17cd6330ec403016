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


def told_simply(tools: Sequence[Tool]) -> dict[str, Json]:
    """The same, of schemas in which each value has one type or several, and none is null."""
    return told_otherwise([typed(dict(tool)) for tool in tools])


def typed(tool: dict[str, Json]) -> dict[str, Json]:
    """The same tool, each parameter with types that all templates know."""
    return {name: _typed(value) for name, value in tool.items()}


def _typed(schema: Json) -> Json:
    match schema:
        case dict():
            found = {name: _typed(value) for name, value in schema.items()}
            match schema.get("type"):
                case [*kinds]:
                    known = [kind for kind in kinds if kind != "null"] or ["string"]
                    found["type"] = known if len(known) > 1 else known[0]
                case "null":
                    found["type"] = "string"
            match found.get("properties"):
                case dict() as members if found.get("type") == "object":
                    found["properties"] = {name: _whole(each) for name, each in members.items()}
            return found
        case list():
            return [_typed(each) for each in schema]
    return schema


def _whole(schema: Json) -> Json:
    return {"type": "string", **schema} if isinstance(schema, dict) else {"type": "string"}


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

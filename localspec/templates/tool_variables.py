"""Tools for chat templates that refuse them as they are: under other names, or told in full."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from localspec.templates.message import Json, Tool

SIMPLE: Json = {"type": ["string", "number", "boolean"]}  # what templates can say in a word
ABSENT = {"object": "additionalProperties", "array": "items"}


def tool_variables(tools: Sequence[Tool]) -> dict[str, Json]:
    """Variables that some templates want: a text named functions, a date, and schemas in full."""
    functions = [tool.get("function") for tool in tools]
    variables: dict[str, Json] = {"functions": json.dumps(functions, indent=4, ensure_ascii=False)}
    variables["datetime"] = datetime.now().strftime("%Y-%m-%d")
    variables["tools"] = [in_full(dict(tool)) for tool in tools]  # some list none, too
    return variables


def simple_tool_variables(tools: Sequence[Tool]) -> dict[str, Json]:
    """The same, of schemas in which each value has one type or several, and none is null."""
    return tool_variables([typed(dict(tool)) for tool in tools])


def typed(tool: dict[str, Json]) -> dict[str, Json]:
    """The same tool, each parameter with types that all templates know."""
    return {name: _typed(value) for name, value in tool.items()}


def _typed(schema: Json) -> Json:
    match schema:
        case dict():
            simple = {name: _typed(value) for name, value in schema.items()}
            match schema.get("type"):
                case [*kinds]:
                    types = [kind for kind in kinds if kind != "null"] or ["string"]
                    simple["type"] = types if len(types) > 1 else types[0]
                case "null":
                    simple["type"] = "string"
            match simple.get("properties"):
                case dict() as members if simple.get("type") == "object":
                    properties = {name: _whole(member) for name, member in members.items()}
                    simple["properties"] = properties
            return simple
        case list():
            return [_typed(member) for member in schema]
    return schema


def _whole(schema: Json) -> Json:
    return {"type": "string", **schema} if isinstance(schema, dict) else {"type": "string"}


def in_full(schema: Json) -> Json:
    """Add what a schema leaves open, where templates read it without asking whether it is there."""
    match schema:
        case dict():
            filled = {name: in_full(value) for name, value in schema.items()}
            kind = schema.get("type")
            if not isinstance(kind, str):
                return filled
            absent = {ABSENT[kind]: SIMPLE} if kind in ABSENT else {}
            return {"description": "", **absent, **filled}
        case list():
            return [in_full(item) for item in schema]
    return schema

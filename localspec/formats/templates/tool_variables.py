"""Variables of tools for chat templates that refuse tools as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from localspec.formats.templates.message import Json, Tool, rewrite_objects

SIMPLE: Json = {"type": ["string", "number", "boolean"]}  # what templates can say in a word
BLANK: Mapping[str, Json] = {
    "description": "",
    "parameters": {"type": "object", "properties": {}},
}  # of a function
ABSENT = {"object": "additionalProperties", "array": "items"}


def tool_variables(tools: Sequence[Tool]) -> dict[str, Json]:
    """Give tools as some templates read them: as a text, with a date, and with full schemas."""
    functions = [tool.get("function") for tool in tools]
    variables: dict[str, Json] = {"functions": json.dumps(functions, indent=4, ensure_ascii=False)}
    variables["datetime"] = datetime.now().strftime("%Y-%m-%d")
    variables["tools"] = [rewrite_objects(_describe(tool), _in_full) for tool in tools]
    return variables


def _describe(tool: Tool) -> Json:
    """Return a tool whose function has a description and parameters, empty ones if need be."""
    match tool.get("function"):
        case dict() as function:
            return {**tool, "function": {**BLANK, **function}}
    return dict(tool)


def simple_tool_variables(tools: Sequence[Tool]) -> dict[str, Json]:
    """Give the same, with types of values that all templates know: one or several, never null."""
    simple = [{k: rewrite_objects(part, _simplify_types) for k, part in t.items()} for t in tools]
    return tool_variables(simple)


def _simplify_types(schema: dict[str, Json]) -> Json:
    match schema.get("type"):
        case [*kinds]:
            types = [kind for kind in kinds if kind != "null"] or ["string"]
            schema["type"] = types if len(types) > 1 else types[0]
        case "null":
            schema["type"] = "string"
    match schema.get("properties"):
        case dict() as members if schema.get("type") == "object":
            schema["properties"] = {name: _whole(member) for name, member in members.items()}
    return schema


def _whole(schema: Json) -> Json:
    return {"type": "string", **schema} if isinstance(schema, dict) else {"type": "string"}


def _in_full(schema: dict[str, Json]) -> Json:
    """Add what a schema leaves open, where templates read it without asking whether it is there."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return schema
    absent = {ABSENT[kind]: SIMPLE} if kind in ABSENT else {}
    return {"description": "", **absent, **schema}

"""Tools of chat requests, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.validators import ByType, as_object
from localspec.formats.templates.message import Tool
from localspec.running.runtime.prompting import Choice

Object = dict[str, JsonValue]


def printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name has printable characters only")
    return name


Name = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(printable)]


def without_nulls(schema: object) -> object:
    """Drop nulls of a schema that a library wrote with all its fields, and empty ones of Lua."""
    if not isinstance(schema, dict):
        return schema
    odd: Sequence[tuple[str, object]] = (("properties", []), ("required", {}))
    return {
        name: value
        for name, value in schema.items()
        if value is not None and (name, value) not in odd
    }


def as_schema(value: object) -> object:
    """Read a schema that may be a text, or an empty list, as PHP writes it."""
    return without_nulls(as_object(value) or {})


class Function(RequestPart):
    name: Name
    description: str | None = None
    parameters: Annotated[Object | None, BeforeValidator(as_schema)] = None
    strict: bool | None = None

    @property
    def tool(self) -> Tool:
        """Return the tool as chat templates read it."""
        fields = {"name", "description", "parameters", "strict"}
        function = self.model_dump(include=fields, exclude_none=True)
        return {"type": "function", "function": function}


class FunctionTool(RequestPart):
    type: Literal["function"]
    function: Function


def as_flat_function(tool: object) -> object:
    """Read a function that has an object around it, as chats have it."""
    within = tool.get("function") if isinstance(tool, dict) else None
    return within | {"type": "function"} if isinstance(within, dict) else tool


def as_function_tool(tool: object) -> object:
    """Wrap a function that stands beside its type, or without a type; leave other tools."""
    if not isinstance(tool, dict) or tool.get("type") not in (None, "function"):
        return tool
    if "function" in tool:
        return tool | {"type": "function"}
    if "name" not in tool:
        return tool
    schema = tool.get("parameters", tool.get("input_schema"))
    function = {name: value for name, value in tool.items() if name not in ("type", "input_schema")}
    return {"type": "function", "function": function | {"parameters": schema}}


ToolField = Annotated[FunctionTool | LeftOut, ByType(), BeforeValidator(as_function_tool)]


def as_tools(value: object) -> object:
    """Read tools: a list with gaps, one tool, or either as a text."""
    value = as_object(value) if isinstance(value, str) else value
    listed = ([value] if value else []) if isinstance(value, dict) else value
    return [tool for tool in listed if tool is not None] if isinstance(listed, list) else listed


ToolsField = Annotated[list[ToolField] | None, BeforeValidator(as_tools)]


def function_tools(tools: Iterable[FunctionTool | LeftOut] | None) -> list[Tool]:
    """List the functions among tools, as chat templates read them."""
    return [tool.function.tool for tool in tools or () if isinstance(tool, FunctionTool)]


MODES: dict[str, Choice] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",  # as Anthropic and Mistral call it
    "validated": "auto",  # as Google does: calls follow their schemas in any case
}
ALLOWED = "allowed_tools"


class ToolChoice(RequestPart):
    """A mode, with the names of the tools it allows, or the name of the one to be called."""

    mode: Choice = "auto"
    name: str | None = None
    allowed: frozenset[str] | None = None


def as_tool_choice(choice: object) -> object:
    """Read the choice in all the forms in which clients send it."""
    if isinstance(choice, bool) or choice in ([], {}):
        return {"mode": "none"} if choice is False else {}
    if isinstance(choice, str):
        mode = MODES.get(choice.lower())
        return {"mode": mode} if mode else {"name": choice} if choice else {}
    if not isinstance(choice, dict):
        return choice
    kind = choice.get("type")
    within = choice.get(kind) if isinstance(kind, str) else None
    if kind == ALLOWED:
        allowed = within if isinstance(within, dict) else choice
        listed = allowed.get("tools", [])
        names = list(map(tool_name, listed)) if isinstance(listed, list) else listed
        mode = allowed.get("mode", "auto")
        return {"mode": MODES.get(mode, mode) if isinstance(mode, str) else mode, "allowed": names}
    if isinstance(within, str):
        return {"name": within}
    if isinstance(within, dict):
        return as_tool_choice(within | {"type": within.get("mode", "tool")})
    if isinstance(kind, str) and kind in MODES:
        return {name: value for name, value in choice.items() if name != "type"} | {
            "mode": MODES[kind]
        }
    return {"name": choice.get("name", kind)}


def tool_name(tool: object) -> object:
    """Return the name of a tool as any API writes it; without one, its type."""
    if not isinstance(tool, dict):
        return tool
    kind = tool.get("type", "function")
    within = tool.get(kind) if isinstance(kind, str) else None
    return (within if isinstance(within, dict) else tool).get("name", kind)


ToolChoiceField = Annotated[ToolChoice, BeforeValidator(as_tool_choice)]

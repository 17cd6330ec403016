"""Tools of chat requests, and which of them have to be called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Tag

from localspec.runtime.prompting import Choice
from localspec.server.requests.leniency import LeftOut, RequestPart
from localspec.server.requests.validators import OTHER, as_object, tagged
from localspec.templates.message import Tool

Object = dict[str, JsonValue]


def printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name has printable characters only")
    return name


Name = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(printable)]


def without_nulls(given: object) -> object:
    """Drop nulls of a schema that a library wrote with all its fields, and empty ones of Lua."""
    if not isinstance(given, dict):
        return given
    odd: Sequence[tuple[str, object]] = (("properties", []), ("required", {}))
    return {
        name: each for name, each in given.items() if each is not None and (name, each) not in odd
    }


def as_schema(given: object) -> object:
    """Read a schema that is a text; one without members is a list where PHP wrote it."""
    return without_nulls(as_object(given) or {})


class Function(RequestPart):
    name: Name
    description: str | None = None
    parameters: Annotated[Object | None, BeforeValidator(as_schema)] = None
    strict: bool | None = None

    @property
    def tool(self) -> Tool:
        """The tool as chat templates read it."""
        told = {"name", "description", "parameters", "strict"}
        function = self.model_dump(include=told, exclude_none=True)
        return {"type": "function", "function": function}


class FunctionTool(RequestPart):
    type: Literal["function"]
    function: Function


def nested(given: object) -> object:
    """A function beside its type, or without one, is meant as well."""
    if not isinstance(given, dict) or given.get("type") not in (None, "function"):
        return given
    if "function" in given:
        return given | {"type": "function"}
    if "name" not in given:
        return given
    schema = given.get("parameters", given.get("input_schema"))
    rest = {name: each for name, each in given.items() if name not in ("type", "input_schema")}
    return {"type": "function", "function": rest | {"parameters": schema}}


ToolGiven = Annotated[
    Annotated[FunctionTool, Tag("function")] | Annotated[LeftOut, Tag(OTHER)],
    tagged("function"),
    BeforeValidator(nested),
]


def as_tools(given: object) -> object:
    """Read tools that are a text, or only one; a place in the list may be empty."""
    given = as_object(given) if isinstance(given, str) else given
    listed = ([given] if given else []) if isinstance(given, dict) else given
    return [each for each in listed if each is not None] if isinstance(listed, list) else listed


ToolsGiven = Annotated[list[ToolGiven] | None, BeforeValidator(as_tools)]


def tools_of(given: Iterable[FunctionTool | LeftOut] | None) -> list[Tool]:
    """List the tools that a model can be told of."""
    return [each.function.tool for each in given or () if isinstance(each, FunctionTool)]


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


def chosen(given: object) -> object:
    """Read the choice in all the forms in which clients send it."""
    if isinstance(given, bool) or given == []:
        return {"mode": "none"} if given is False else {}
    if isinstance(given, str):
        mode = MODES.get(given.lower())
        return {"mode": mode} if mode else {"name": given} if given else {}
    if not isinstance(given, dict):
        return given
    kind = given.get("type")
    within = given.get(kind) if isinstance(kind, str) else None
    if kind == ALLOWED:
        choice = within if isinstance(within, dict) else given
        listed = choice.get("tools", [])
        names = list(map(tool_name, listed)) if isinstance(listed, list) else listed
        mode = choice.get("mode", "auto")
        return {"mode": MODES.get(mode, mode) if isinstance(mode, str) else mode, "allowed": names}
    if isinstance(within, str):
        return {"name": within}
    if isinstance(within, dict):
        return chosen(within | {"type": within.get("mode", "tool")})
    if isinstance(kind, str) and kind in MODES:
        return {name: value for name, value in given.items() if name != "type"} | {
            "mode": MODES[kind]
        }
    return {"name": given.get("name", kind)}


def tool_name(tool: object) -> object:
    """Name a tool as any API writes it; one without a name by its type."""
    if not isinstance(tool, dict):
        return tool
    kind = tool.get("type", "function")
    within = tool.get(kind) if isinstance(kind, str) else None
    return (within if isinstance(within, dict) else tool).get("name", kind)


Chosen = Annotated[ToolChoice, BeforeValidator(chosen)]

"""The tools of /v1/responses, as their client gives them and as the model gets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from localspec.apps.server.requests.forms import Object
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.tools import Function, Name, as_flat_function
from localspec.apps.server.requests.validators import ByType
from localspec.formats.dialects.patterns import pattern_of
from localspec.formats.templates.message import Json, Tool

Kind = Literal["function", "custom", "local_shell", "tool_search"]

INPUT: Mapping[str, Json] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
COMMAND: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}},
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
    },
    "required": ["command"],
    "additionalProperties": False,
}
QUERY: Mapping[str, Json] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}


@dataclass(frozen=True, slots=True)
class ModelTool:
    """A tool as the model gets it."""

    kind: Kind
    name: str  # by which the model calls it
    called: str  # by the client
    space: str
    function: Mapping[str, Json]  # without the name

    @property
    def tool(self) -> Tool:
        return {"type": "function", "function": {"name": self.name, **self.function}}


class FunctionDefinition(Function):
    type: Literal["function"]

    def for_model(self, space: str = "") -> ModelTool:
        fields = {"description", "parameters", "strict"}
        function = self.model_dump(include=fields, exclude_none=True)
        return ModelTool("function", self.name, self.name, space, function)


class InputFormat(RequestPart):
    """The grammar of an input: the model reads it, and is held to it if it is regular."""

    type: str = "text"
    syntax: str = ""
    definition: str = ""

    @property
    def pattern(self) -> str | None:
        return pattern_of(self.syntax, self.definition) if self.definition else None

    @property
    def parameters(self) -> Mapping[str, Json]:
        """Return the schema of a call: one text."""
        pattern = self.pattern
        text: Json = {"type": "string", **({"pattern": pattern} if pattern else {})}
        return {**INPUT, "properties": {"input": text}}


class CustomTool(RequestPart):
    """A tool that takes any text."""

    type: Literal["custom"]
    name: Name
    description: str = ""
    format: InputFormat = InputFormat()

    def for_model(self, space: str = "") -> ModelTool:
        about = self.description
        if self.format.definition:
            syntax = self.format.syntax or "this"
            about += f"\nThe input follows this {syntax} grammar:\n{self.format.definition}"
        function: dict[str, Json] = {"description": about, "parameters": self.format.parameters}
        return ModelTool("custom", self.name, self.name, space, function)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.format.definition and not self.format.pattern:
            yield "format"


class ShellTool(RequestPart):
    """A shell on the machine of the client."""

    type: Literal["local_shell"]

    def for_model(self, space: str = "") -> ModelTool:
        function: dict[str, Json] = {
            "description": "Run a command on this machine.",
            "parameters": COMMAND,
        }
        return ModelTool("local_shell", "local_shell", "", space, function)


class SearchTool(RequestPart):
    """A search for tools by the client; a search by the server is ignored, which gets all tools."""

    type: Literal["tool_search"]
    execution: str = "server"
    description: str = "Search for tools that can be called."
    parameters: Object | None = None

    def for_model(self, space: str = "") -> ModelTool:
        function: dict[str, Json] = {"description": self.description}
        function["parameters"] = self.parameters or QUERY
        return ModelTool("tool_search", "tool_search", "", space, function)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.execution != "client":
            yield "tool_search"


class Namespace(RequestPart):
    """Tools that belong together; the model gets each of them."""

    type: Literal["namespace"]
    name: str
    description: str | None = None
    tools: list[Annotated[FunctionDefinition | CustomTool | LeftOut, ByType("function")]] = Field(
        default_factory=list
    )


ToolField = Annotated[
    FunctionDefinition | CustomTool | ShellTool | SearchTool | Namespace | LeftOut,
    ByType("function"),
    BeforeValidator(as_flat_function),
]
Tools = list[ToolField]


def model_tools(tools: Iterable[Tools]) -> Mapping[str, ModelTool]:
    """Return the tools by the names that the model gets, each once.

    A name that several namespaces have gets its namespace in front.
    """
    by_name = {(tool.space, tool.name): tool for tool in _model_tools(tools)}
    often = Counter(name for _, name in by_name)
    tools_by_name: dict[str, ModelTool] = {}
    for (space, name), tool in by_name.items():
        full = f"{space}.{name}" if often[name] > 1 and space else name
        tools_by_name[full] = replace(tool, name=full)
    return tools_by_name


def _model_tools(tools: Iterable[Tools]) -> Iterator[ModelTool]:
    for tool in chain.from_iterable(tools):
        match tool:
            case Namespace(name=space):
                members = (member for member in tool.tools if not isinstance(member, LeftOut))
                yield from (member.for_model(space) for member in members)
            case FunctionDefinition() | CustomTool() | ShellTool():
                yield tool.for_model()
            case SearchTool(execution="client"):
                yield tool.for_model()

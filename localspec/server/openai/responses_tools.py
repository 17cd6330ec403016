"""The tools of /v1/responses: what a model is told of each, and as what items its calls come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Tag

from localspec.dialects.patterns import pattern_of
from localspec.server.requests.forms import Object
from localspec.server.requests.leniency import LeftOut, RequestPart
from localspec.server.requests.tools import Function, Name
from localspec.server.requests.validators import OTHER, tagged, typed
from localspec.templates.message import Json, Tool

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
class Offered:
    """A tool as the model is told of it."""

    kind: Kind
    name: str  # which the model says
    called: str  # which the client gave it
    space: str
    function: Mapping[str, Json]  # without the name

    @property
    def tool(self) -> Tool:
        return {"type": "function", "function": {"name": self.name, **self.function}}


class FunctionGiven(Function):
    type: Literal["function"]

    def offered(self, space: str = "") -> Offered:
        told = {"description", "parameters", "strict"}
        function = self.model_dump(include=told, exclude_none=True)
        return Offered("function", self.name, self.name, space, function)


class InputFormat(RequestPart):
    """The grammar is told to the model, which is held to it if it is a regular one."""

    type: str = "text"
    syntax: str = ""
    definition: str = ""

    @property
    def pattern(self) -> str | None:
        return pattern_of(self.syntax, self.definition) if self.definition else None

    @property
    def parameters(self) -> Mapping[str, Json]:
        """The schema of a call: one text."""
        pattern = self.pattern
        text: Json = {"type": "string", **({"pattern": pattern} if pattern else {})}
        return {**INPUT, "properties": {"input": text}}


class CustomGiven(RequestPart):
    """A tool that takes any text."""

    type: Literal["custom"]
    name: Name
    description: str = ""
    format: InputFormat = InputFormat()

    def offered(self, space: str = "") -> Offered:
        about = self.description
        if self.format.definition:
            syntax = self.format.syntax or "this"
            about += f"\nThe input follows this {syntax} grammar:\n{self.format.definition}"
        function: dict[str, Json] = {"description": about, "parameters": self.format.parameters}
        return Offered("custom", self.name, self.name, space, function)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.format.definition and not self.format.pattern:
            yield "format"


class ShellGiven(RequestPart):
    """A shell on the machine of the client."""

    type: Literal["local_shell"]

    def offered(self, space: str = "") -> Offered:
        function: dict[str, Json] = {
            "description": "Run a command on this machine.",
            "parameters": COMMAND,
        }
        return Offered("local_shell", "local_shell", "", space, function)


class SearchGiven(RequestPart):
    """A search for tools, by the client; a server that is told of all tools needs none."""

    type: Literal["tool_search"]
    execution: str = "server"
    description: str = "Search for tools that can be called."
    parameters: Object | None = None

    def offered(self, space: str = "") -> Offered:
        function: dict[str, Json] = {"description": self.description}
        function["parameters"] = self.parameters or QUERY
        return Offered("tool_search", "tool_search", "", space, function)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.execution != "client":
            yield "tool_search"


def flat(given: object) -> object:
    """A function as chat requests have it."""
    within = given.get("function") if isinstance(given, dict) else None
    return within | {"type": "function"} if isinstance(within, dict) else given


Member = Annotated[
    Annotated[FunctionGiven, Tag("function")]
    | Annotated[CustomGiven, Tag("custom")]
    | Annotated[LeftOut, Tag(OTHER)],
    tagged("function", "custom"),
    typed("function"),
]


class Namespace(RequestPart):
    """Tools that belong together; the model is told of each."""

    type: Literal["namespace"]
    name: str
    description: str | None = None
    tools: list[Member] = Field(default_factory=list)


ToolGiven = Annotated[
    Annotated[FunctionGiven, Tag("function")]
    | Annotated[CustomGiven, Tag("custom")]
    | Annotated[ShellGiven, Tag("local_shell")]
    | Annotated[SearchGiven, Tag("tool_search")]
    | Annotated[Namespace, Tag("namespace")]
    | Annotated[LeftOut, Tag(OTHER)],
    tagged("function", "custom", "local_shell", "tool_search", "namespace"),
    typed("function"),
    BeforeValidator(flat),
]
Tools = list[ToolGiven]


def offered(tools: Iterable[Tools]) -> Mapping[str, Offered]:
    """All tools by the names that the model is told, each once.

    Of namespaces that have a name in common, each puts its own name before it.
    """
    found = {(each.space, each.name): each for each in _each(tools)}
    often = Counter(name for _, name in found)
    told: dict[str, Offered] = {}
    for (space, name), each in found.items():
        full = f"{space}.{name}" if often[name] > 1 and space else name
        told[full] = replace(each, name=full)
    return told


def _each(tools: Iterable[Tools]) -> Iterator[Offered]:
    for tool in chain.from_iterable(tools):
        match tool:
            case Namespace(name=space):
                members = (each for each in tool.tools if not isinstance(each, LeftOut))
                yield from (each.offered(space) for each in members)
            case FunctionGiven() | CustomGiven() | ShellGiven():
                yield tool.offered()
            case SearchGiven(execution="client"):
                yield tool.offered()

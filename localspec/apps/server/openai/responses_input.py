"""The items of /v1/responses: those of any conversation, and those of its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.apps.server.conversation.entries import Call, Entry, Result
from localspec.apps.server.conversation.items import (
    CallItem,
    MessageItem,
    OutputItem,
    ReasoningItem,
    as_messages,
)
from localspec.apps.server.faults import refused
from localspec.apps.server.openai.responses_tools import ModelTool, Tools, model_tools
from localspec.apps.server.requests.fields import Object
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.validators import ByType


class ShellCallItem(RequestPart):
    type: Literal["local_shell_call"]
    id: str = ""
    call_id: str = ""
    action: Object

    def entries(self) -> Iterator[Entry]:
        action = {name: value for name, value in self.action.items() if name != "type"}
        yield Call(self.call_id or self.id, "local_shell", json.dumps(action))


class SearchCallItem(RequestPart):
    type: Literal["tool_search_call"]
    call_id: str = ""  # none of a search that a server ran
    arguments: JsonValue = None

    def entries(self) -> Iterator[Entry]:
        search = self.arguments
        written = search if isinstance(search, str) else json.dumps(search or {})
        yield from [Call(self.call_id, "tool_search", written)] if self.call_id else ()


class SearchOutputItem(RequestPart):
    """Tools that a search of the client found, callable from here on."""

    type: Literal["tool_search_output"]
    call_id: str = ""
    tools: Tools = Field(default_factory=list)

    def entries(self) -> Iterator[Entry]:
        text = f"These tools can be called now: {', '.join(model_tools([self.tools]))}"
        yield from [Result(self.call_id, [text])] if self.call_id else ()


class ToolsItem(RequestPart):
    type: Literal["additional_tools"]
    tools: Tools = Field(default_factory=list)

    def entries(self) -> Iterator[Entry]:
        return iter(())


class ReferenceItem(RequestPart):
    """A reference to an item of a kept response; the paths put the item in its place."""

    type: Literal["item_reference"]
    id: str

    def entries(self) -> Iterator[Entry]:
        raise refused(f"there is no item {self.id[:80]!r} here: send it whole", "input")


Item = Annotated[
    MessageItem
    | ReasoningItem
    | CallItem
    | ShellCallItem
    | SearchCallItem
    | OutputItem
    | SearchOutputItem
    | ToolsItem
    | ReferenceItem
    | LeftOut,
    ByType("message"),
]


def as_items(value: object) -> object:
    return as_messages(value if isinstance(value, list) else [value])


Items = Annotated[list[Item], BeforeValidator(as_items)]


def names_of(tools: Mapping[str, ModelTool]) -> Mapping[tuple[str, str], str]:
    return {(tool.space, tool.called): name for name, tool in tools.items()}


def tools_in(items: Sequence[Item]) -> list[Tools]:
    """List the tools that stand among items."""
    return [item.tools for item in items if isinstance(item, SearchOutputItem | ToolsItem)]

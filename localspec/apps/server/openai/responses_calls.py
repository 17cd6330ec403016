"""Calls as items of the kind that their tool asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic_core import from_json

from localspec.apps.server.openai.responses_tools import Kind, ModelTool

Data = dict[str, object]


@dataclass(frozen=True, slots=True)
class CalledItem:
    kind: Kind
    name: str
    space: str = ""

    @property
    def streams(self) -> bool:
        """Return whether its arguments are streamed, as those of functions are."""
        return self.kind == "function"

    def ends(self, arguments: str) -> Iterator[tuple[str, Data]]:
        """Yield the events that end its arguments."""
        match self.kind:
            case "function":
                yield "response.function_call_arguments.done", {"arguments": arguments}
            case "custom":
                text = custom_input(arguments)
                yield "response.custom_tool_call_input.delta", {"delta": text}
                yield "response.custom_tool_call_input.done", {"input": text}

    def item(self, arguments: str) -> Data:
        space: Data = {"namespace": self.space} if self.space else {}
        match self.kind:
            case "function":
                call = {"type": "function_call", "name": self.name, "arguments": arguments}
                return {**call, **space}
            case "custom":
                text = custom_input(arguments)
                call = {"type": "custom_tool_call", "name": self.name, "input": text}
                return {**call, **space}
            case "local_shell":
                action = {"type": "exec", "command": [], "env": {}} | as_object(arguments)
                return {"type": "local_shell_call", "action": action}
            case "tool_search":
                search = {"execution": "client", "arguments": as_object(arguments)}
                return {"type": "tool_search_call", **search}


def call_item(tool: ModelTool | None, name: str) -> CalledItem:
    """Return the item of a call; a tool that the model made up is a function."""
    return CalledItem(tool.kind, tool.called, tool.space) if tool else CalledItem("function", name)


def as_object(arguments: str) -> Data:
    """Parse arguments; of a reply that was cut, as much as can be read."""
    try:
        value = from_json(arguments or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def custom_input(arguments: str) -> str:
    """Return the text that a custom tool is called with."""
    text = as_object(arguments).get("input")
    return text if isinstance(text, str) else json.dumps(text) if text else arguments

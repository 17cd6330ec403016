"""Calls as items of the kind that their tool asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic_core import from_json

from localspec.server.openai.responses_tools import Kind, Offered

Data = dict[str, object]


@dataclass(frozen=True, slots=True)
class CalledItem:
    kind: Kind
    name: str
    space: str = ""

    @property
    def streams(self) -> bool:
        """Tell whether its arguments are told as they come; others are told in another form."""
        return self.kind == "function"

    def ends(self, arguments: str) -> Iterator[tuple[str, Data]]:
        """The events that tell of arguments that are complete."""
        match self.kind:
            case "function":
                yield "response.function_call_arguments.done", {"arguments": arguments}
            case "custom":
                text = said(arguments)
                yield "response.custom_tool_call_input.delta", {"delta": text}
                yield "response.custom_tool_call_input.done", {"input": text}

    def item(self, arguments: str) -> Data:
        space: Data = {"namespace": self.space} if self.space else {}
        match self.kind:
            case "function":
                call = {"type": "function_call", "name": self.name, "arguments": arguments}
                return {**call, **space}
            case "custom":
                call = {"type": "custom_tool_call", "name": self.name, "input": said(arguments)}
                return {**call, **space}
            case "local_shell":
                action = {"type": "exec", "command": [], "env": {}} | given(arguments)
                return {"type": "local_shell_call", "action": action}
            case "tool_search":
                search = {"execution": "client", "arguments": given(arguments)}
                return {"type": "tool_search_call", **search}


def called(tool: Offered | None, name: str) -> CalledItem:
    """A tool that the model made up is a function."""
    return CalledItem(tool.kind, tool.called, tool.space) if tool else CalledItem("function", name)


def given(arguments: str) -> Data:
    """Arguments as an object: of a reply that was cut, as much as can be read."""
    try:
        found = from_json(arguments or "{}", allow_partial=True)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def said(arguments: str) -> str:
    """The text that a custom tool is called with."""
    text = given(arguments).get("input")
    return text if isinstance(text, str) else json.dumps(text) if text else arguments

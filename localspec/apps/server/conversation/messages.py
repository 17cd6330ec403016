"""Messages of chats, with the fields that APIs, clients and servers have for one thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from localspec.apps.server.conversation.entries import BREAK, Call, Entry, Result, Speech, Thought
from localspec.apps.server.conversation.parts import (
    Blocks,
    Identity,
    ThinkingPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
)
from localspec.apps.server.requests.fields import Object, TextPart
from localspec.apps.server.requests.json_size import check_size
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import Images, MediaReference, image_references


def as_arguments(value: object) -> object:
    """Read arguments: an empty list, as PHP writes it, is none; other data becomes JSON."""
    if value == []:
        return {}
    if isinstance(value, str):
        check_size(value)  # for templates that read arguments
    return json.dumps(value) if isinstance(value, list | int | float) else value


class CalledFunction(RequestPart):
    name: str
    arguments: Annotated[str | Object, BeforeValidator(as_arguments)] = "{}"


class ToolCall(RequestPart):
    """A call in a message that a client sends back; a custom tool is called with a text."""

    id: Identity = None
    type: str = "function"
    function: CalledFunction

    @model_validator(mode="before")
    @classmethod
    def of_custom(cls, call: object) -> object:
        if not isinstance(call, dict):
            return call
        custom = call.get("custom")
        if "name" in call and "function" not in call:  # as LangChain keeps calls
            arguments = call.get("arguments", call.get("args"))
            return call | {"function": {"name": call["name"], "arguments": arguments}}
        if not isinstance(custom, dict):
            return call
        fields = {name: value for name, value in call.items() if name != "custom"}
        called = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
        return fields | {"function": called}


def as_thoughts(value: object) -> object:
    """Read a text or an object as a list of one."""
    return [
        {"text": thought} if isinstance(thought, str) else thought
        for thought in (value if isinstance(value, list) else [value])
    ]


Thoughts = Annotated[list[ThoughtPart] | None, BeforeValidator(as_thoughts)]
ROLES = {
    **dict.fromkeys(("function", "ipython", "observation", "tool_response"), "tool"),
    **dict.fromkeys(("model", "ai", "bot", "gpt"), "assistant"),
    "human": "user",
}


def as_role(value: object) -> object:
    lower = value.lower() if isinstance(value, str) else ""
    return ROLES.get(lower, lower) if lower else value


KnownRole = Literal["system", "developer", "user", "assistant", "tool"]
Role = Annotated[KnownRole, BeforeValidator(as_role)]


class Message(RequestPart):
    role: Role = "user"
    content: Blocks = Field(default_factory=list)
    name: Identity = None
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = None  # as calls were given once
    tool_call_id: Identity = None
    tool_name: Identity = None  # as Ollama calls the name of a result
    images: Images | None = None  # before its content, as Ollama has them
    # One thing, as servers and clients call it.
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None
    reasoning_text: JsonValue = None
    thinking: JsonValue = None
    thinking_blocks: Thoughts = None
    reasoning_details: Thoughts = None

    @model_validator(mode="before")
    @classmethod
    def of_others(cls, message: object) -> object:
        """Take a message in an unknown role as the user's; the role is reported as ignored."""
        if not isinstance(message, dict):
            return {"content": message} if isinstance(message, str) else message
        if message.get("function_call") == {}:
            message = {**message, "function_call": None}
        role = as_role(message.get("role"))
        if not isinstance(role, str) or role in get_args(KnownRole):
            return message
        return {**message, "role": "user", **({f"role.{role}": role} if role else {})}

    def entries(self) -> list[Entry]:
        """List its thought, what it says between the results in it, and its calls."""
        entries: list[Entry] = []
        thoughts: list[str] = []
        calls: list[Call] = []
        content: list[str | MediaReference] = [*image_references(self.images)]
        for part in self.content:
            match part:
                case TextPart(pieces=[text]):
                    content += [text] if text or not self.images else ()
                case ThinkingPart(thought=thought):
                    thoughts.append(thought)
                case ToolUse(call=call):
                    calls.append(call)
                case ToolResult(result=result):
                    entries += [
                        *([Speech(self.role, content, self.name)] if content else ()),
                        result,
                    ]
                    content = []
                case LeftOut():
                    continue
                case _:
                    content += part.pieces
        if self.role == "tool":
            return [*entries, Result(self.tool_call_id, content, self.name or self.tool_name)]
        is_reply = self.role == "assistant"
        thought = (self._thought() or BREAK.join(filter(None, thoughts))) if is_reply else ""
        calls = [*calls, *self._calls()] if is_reply else []
        if content or not (thought or entries or calls):
            entries.append(Speech(self.role, content, self.name))
        return [*([Thought(thought)] if thought else ()), *entries, *calls]

    def _thought(self) -> str:
        for thought in (self.reasoning_content, self.reasoning, self.reasoning_text, self.thinking):
            if thought and isinstance(thought, str):
                return thought
        listed = self.thinking_blocks or self.reasoning_details
        return "".join(part.thought for part in listed) if listed else ""

    def _calls(self) -> Iterator[Call]:
        for call in self.tool_calls or ():
            yield Call(call.id, call.function.name, call.function.arguments)
        if self.function_call:
            yield Call(None, self.function_call.name, self.function_call.arguments)

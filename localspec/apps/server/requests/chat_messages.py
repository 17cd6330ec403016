"""Messages of OpenAI's API, with fields that clients and other servers added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Protocol

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from localspec.apps.server.requests.fields import Object, TextPart, as_name
from localspec.apps.server.requests.files import FilePart, as_picture
from localspec.apps.server.requests.json_size import check_size
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import (
    ImagePart,
    Images,
    MediaReference,
    SoundPart,
    image_references,
    references_in,
    with_images,
)
from localspec.apps.server.requests.validators import ByType, as_texts
from localspec.formats.templates.message import Json, Message


class RefusalPart(RequestPart):
    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        return self.refusal


Part = Annotated[
    TextPart | RefusalPart | FilePart | ImagePart | SoundPart | LeftOut,
    ByType("text", refuses=True),
    BeforeValidator(as_picture),
]
Parts = Annotated[list[Part], BeforeValidator(as_texts)]


class TextHolder(Protocol):
    """A part of a message that holds a text."""

    @property
    def text(self) -> str: ...


def message_content(parts: Sequence[TextHolder | ImagePart | SoundPart | LeftOut]) -> Json:
    """Return one text as it is, and else parts: texts, and a place for each picture and sound."""
    content: list[Json] = []
    for part in parts:
        match part:
            case LeftOut():
                continue
            case ImagePart() | SoundPart():
                content.append({"type": part.reference.kind})
            case text:
                content.append({"type": "text", "text": text.text})
    match content:
        case [{"text": only}]:
            return only
    return content


def as_arguments(value: object) -> object:
    """Read arguments: an empty list, as PHP writes it, is none; other data becomes JSON."""
    if value == []:
        return {}
    if isinstance(value, str):
        check_size(value)  # for templates that read arguments
    return json.dumps(value) if isinstance(value, list | int | float) else value


Identity = Annotated[str | None, BeforeValidator(as_name)]


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

    @property
    def as_template_reads(self) -> Json:
        function: Json = {"name": self.function.name, "arguments": self.function.arguments}
        identity = {} if self.id is None else {"id": self.id}
        return {**identity, "type": "function", "function": function}


class Thought(RequestPart):
    """A thought in a list, as litellm and OpenRouter send them."""

    type: str = ""
    thinking: str = ""
    text: str = ""
    summary: str = ""


def as_thoughts(value: object) -> object:
    """Read a text or an object as a list of one."""
    return [
        {"text": thought} if isinstance(thought, str) else thought
        for thought in (value if isinstance(value, list) else [value])
    ]


Thoughts = Annotated[list[Thought] | None, BeforeValidator(as_thoughts)]
ROLES = {
    **dict.fromkeys(("function", "ipython", "observation", "tool_response"), "tool"),
    **dict.fromkeys(("model", "ai", "bot", "gpt"), "assistant"),
    "human": "user",
}


def as_role(value: object) -> object:
    lower = value.lower() if isinstance(value, str) else ""
    return ROLES.get(lower, lower) if lower else value


KNOWN_ROLES = ("system", "developer", "user", "assistant", "tool")
Role = Annotated[
    Literal["system", "developer", "user", "assistant", "tool"],
    BeforeValidator(as_role),
]


class ChatMessage(RequestPart):
    role: Role = "user"
    content: Parts = Field(default_factory=list)
    name: Identity = None
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = None  # as calls were given once
    tool_call_id: Identity = None
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
        if not isinstance(role, str) or role in KNOWN_ROLES:
            return message
        fields = {name: value for name, value in message.items() if name != "role"}
        return {**fields, **({f"role.{role}": role} if role else {})}

    @property
    def thought(self) -> str:
        for thought in (self.reasoning_content, self.reasoning, self.reasoning_text, self.thinking):
            if thought and isinstance(thought, str):
                return thought
        blocks = self.thinking_blocks or self.reasoning_details or ()
        return "".join(block.thinking or block.text or block.summary for block in blocks)

    @property
    def references(self) -> list[MediaReference]:
        """List its pictures and sounds in the order of their places in its content."""
        return [*image_references(self.images), *references_in(self.content)]

    @property
    def message(self) -> Message:
        return {"role": self.role, **dict(self._fields())}

    def _fields(self) -> Iterator[tuple[str, Json]]:
        if self.content or self.images:
            yield "content", with_images(message_content(self.content), self.images)
        for name, text in (("name", self.name), ("tool_call_id", self.tool_call_id)):
            if text is not None:
                yield name, text
        if self.thought:
            yield "reasoning_content", self.thought
        calls: list[Json] = [call.as_template_reads for call in self.tool_calls or ()]
        if self.function_call:
            function = self.function_call.model_dump(include={"name", "arguments"})
            calls.append({"type": "function", "function": function})
        if calls:
            yield "tool_calls", calls

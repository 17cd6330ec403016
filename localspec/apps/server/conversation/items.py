"""Items, which stand beside messages, and the reading of both where either may come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, Protocol, get_args

from pydantic import BeforeValidator, Field, PlainValidator

from localspec.apps.server.conversation.entries import Call, Entry, Result, Thought
from localspec.apps.server.conversation.messages import Message, Role
from localspec.apps.server.conversation.parts import Parts, ThoughtPart, content_of, unsealed
from localspec.apps.server.requests.fields import Object
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import IMAGES, SOUNDS


class MessageItem(Message):
    type: Literal["message"]
    role: Role


class ReasoningItem(RequestPart):
    type: Literal["reasoning"]
    summary: list[ThoughtPart] = Field(default_factory=list)  # the whole is there
    content: list[ThoughtPart] | None = None
    encrypted_content: str | None = None

    def entries(self) -> Iterator[Entry]:
        shown = "".join(part.thought for part in self.content or ())
        if thought := shown or unsealed(self.encrypted_content):
            yield Thought(thought)


class CallItem(RequestPart):
    """A call; a custom tool has an input, which is a text."""

    type: Literal["function_call", "custom_tool_call"]
    id: str = ""
    call_id: str = ""
    name: str
    namespace: str = ""
    arguments: str | Object = "{}"
    input: str | None = None

    def entries(self) -> Iterator[Entry]:
        text = {"input": self.input}
        arguments = self.arguments if self.input is None else json.dumps(text, ensure_ascii=False)
        yield Call(self.call_id or self.id, self.name, arguments, self.namespace)


class OutputItem(RequestPart):
    type: Literal["function_call_output", "custom_tool_call_output", "local_shell_call_output"]
    id: str = ""
    call_id: str = ""
    output: Parts = Field(default_factory=list)
    name: str | None = None

    def entries(self) -> Iterator[Entry]:
        yield Result(self.call_id or self.id, content_of(self.output), self.name)


class HasEntries(Protocol):
    """A message or an item."""

    def entries(self) -> Iterable[Entry]: ...


def groups(listed: Iterable[HasEntries | LeftOut]) -> list[list[Entry]]:
    """Group entries: items are joined with what is beside them, messages in a row are not."""
    grouped, was_message = list[list[Entry]](), False
    for item in listed:
        if isinstance(item, LeftOut):
            continue
        is_message = isinstance(item, Message)
        if not grouped or (is_message and was_message):
            grouped.append([])
        grouped[-1] += item.entries()
        was_message = is_message
    return grouped


PARTS = ("text", "input_text", "input_file", *IMAGES, *SOUNDS)
ITEMS = {
    kind: item
    for item in (MessageItem, ReasoningItem, CallItem, OutputItem)
    for kind in get_args(item.model_fields["type"].annotation)
}


def as_messages(value: object) -> object:
    """Read texts in a list, and parts alone, as messages of the user."""
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, dict) and item.get("type") in PARTS for item in value):
        return [{"role": "user", "content": value}]
    return [{"role": "user", "content": item} if isinstance(item, str) else item for item in value]


def message_or_item(value: object) -> Message | ReasoningItem | CallItem | OutputItem | LeftOut:
    """Read a message, or an item in the place of one."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        return Message.model_validate(value)
    other = Message if {"role", "content"} & value.keys() else LeftOut
    return ITEMS.get(kind, other).model_validate(value)


MessagesOrItems = Annotated[
    list[
        Annotated[
            Message | ReasoningItem | CallItem | OutputItem | LeftOut,
            PlainValidator(message_or_item, json_schema_input_type=Message),
        ]
    ],
    BeforeValidator(as_messages),
]

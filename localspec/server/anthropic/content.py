"""Messages as Anthropic's API puts them, and as chat templates read them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from localspec.server.replies.blocks import SEAL
from localspec.server.requests.fields import Object, Strict
from localspec.server.requests.given import as_texts, only
from localspec.templates.message import Json, Message

BREAK = "\n\n"  # between blocks, each of which is a paragraph or more


class TextBlock(Strict):
    type: Literal["text"]
    text: str
    cache_control: Object | None = None  # harmless everywhere: prefixes are kept anyway
    citations: list[Object] | None = None  # harmless: of replies sent back


class ThinkingBlock(Strict):
    type: Literal["thinking"]
    thinking: str
    signature: str = ""

    @property
    def text(self) -> str:
        sealed = self.signature.removeprefix(SEAL)
        return self.thinking or (sealed if sealed != self.signature else "")


class ToolUseBlock(Strict):
    type: Literal["tool_use"]
    id: str
    name: str
    input: Object
    cache_control: Object | None = None
    caller: Object | None = None  # harmless: it is always the model itself

    @property
    def call(self) -> Message:
        function: dict[str, Json] = {"name": self.name, "arguments": self.input}
        return {"id": self.id, "type": "function", "function": function}


Texts = Annotated[list[Annotated[TextBlock, only("block", "text")]], BeforeValidator(as_texts)]


class ToolResultBlock(Strict):
    type: Literal["tool_result"]
    tool_use_id: str
    content: Texts = Field(default_factory=list)
    is_error: bool = False
    cache_control: Object | None = None

    @property
    def text(self) -> str:
        said = joined(self.content)
        return f"Error: {said}" if self.is_error else said


class SystemMessage(Strict):
    role: Literal["system"]
    content: Texts


class UserMessage(Strict):
    role: Literal["user"]
    content: Annotated[
        list[
            Annotated[
                TextBlock | ToolResultBlock,
                Field(discriminator="type"),
                only("block", "text", "tool_result"),
            ]
        ],
        BeforeValidator(as_texts),
    ]


class AssistantMessage(Strict):
    role: Literal["assistant"]
    content: Annotated[
        list[
            Annotated[
                TextBlock | ThinkingBlock | ToolUseBlock,
                Field(discriminator="type"),
                only("block", "text", "thinking", "tool_use"),
            ]
        ],
        BeforeValidator(as_texts),
    ]


Given = Annotated[SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")]


def joined(texts: list[TextBlock]) -> str:
    return BREAK.join(each.text for each in texts)


def messages(given: list[Given]) -> Iterator[Message]:
    """Results of tools become messages of their own, with the name of the tool."""
    names: dict[str, str] = {}
    for each in given:
        match each:
            case SystemMessage(content=texts):
                yield {"role": "system", "content": joined(texts)}
            case UserMessage():
                yield from _asked(each, names)
            case AssistantMessage():
                names |= {use.id: use.name for use in each.content if use.type == "tool_use"}
                yield _replied(each)


def _asked(given: UserMessage, names: dict[str, str]) -> Iterator[Message]:
    for kind, blocks in groupby(given.content, lambda block: block.type):
        if kind == "text":
            said = BREAK.join(block.text for block in blocks)
            yield {"role": "user", "content": said}
            continue
        for block in blocks:
            if block.type == "tool_result":
                id = block.tool_use_id
                name = {"name": names[id]} if id in names else {}
                yield {"role": "tool", "tool_call_id": id, "content": block.text, **name}


def _replied(given: AssistantMessage) -> Message:
    found: dict[str, Json] = {"role": "assistant"}
    found["content"] = "".join(each.text for each in given.content if each.type == "text")
    thoughts = [each.text for each in given.content if each.type == "thinking"]
    calls = [each.call for each in given.content if each.type == "tool_use"]
    if any(thoughts):
        found["reasoning_content"] = BREAK.join(filter(None, thoughts))
    if calls:
        found["tool_calls"] = calls
    return found

"""Messages of Anthropic's API, turned into those of chat templates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from localspec.apps.server.anthropic.blocks import (
    BREAK,
    TextBlock,
    Texts,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Words,
    as_blocks,
    block_content,
    joined,
)
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import ImagePart, MediaReference, references_in
from localspec.apps.server.requests.validators import ByType, as_texts
from localspec.formats.templates.message import Json, Message

BILLING = re.compile(r"\s*x-anthropic-billing-header:[^\n]*\n*")


class SystemMessage(RequestPart):
    role: Literal["system", "developer"]
    content: Texts


class UserMessage(RequestPart):
    role: Literal["user"]
    content: Annotated[
        list[
            Annotated[Words | ImagePart | ToolResultBlock | LeftOut, ByType("text", refuses=True)]
        ],
        BeforeValidator(as_blocks),
    ] = Field(default_factory=list)

    @property
    def references(self) -> Iterator[MediaReference]:
        """Yield its pictures, those in results of tools too, in their order."""
        for block in self.content:
            match block:
                case ToolResultBlock():
                    yield from references_in(block.content)
                case _:
                    yield from references_in([block])


class AssistantMessage(RequestPart):
    role: Literal["assistant"]
    content: Annotated[
        list[Annotated[TextBlock | ThinkingBlock | ToolUseBlock | LeftOut, ByType("text")]],
        BeforeValidator(as_texts),
    ] = Field(default_factory=list)


AnthropicMessage = Annotated[
    SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")
]


def system_text(system: Sequence[Words | LeftOut]) -> str:
    """Join a system prompt, without the line that Claude Code changes with every request.

    That line stands first, so no prefix of a conversation would stay cached.
    """
    return BILLING.sub("", joined(system), count=1) if system else ""


def messages(conversation: list[AnthropicMessage]) -> Iterator[Message]:
    """Turn messages into those of templates; a tool's result becomes a message with its name."""
    names: dict[str, str] = {}
    for message in conversation:
        match message:
            case SystemMessage(content=texts):
                yield {"role": "system", "content": joined(texts)}
            case UserMessage():
                yield from _user_messages(message, names)
            case AssistantMessage():
                names |= dict(tools_called(message))
                yield _assistant_message(message)


def _user_messages(message: UserMessage, names: dict[str, str]) -> Iterator[Message]:
    asked: list[Words | ImagePart] = []
    for block in message.content:
        match block:
            case LeftOut():
                continue
            case ToolResultBlock(tool_use_id=id):
                if asked:
                    yield {"role": "user", "content": block_content(asked)}
                name = {"name": names[id]} if id in names else {}
                yield {"role": "tool", "tool_call_id": id, "content": block.result, **name}
                asked = []
            case words:
                asked.append(words)
    if asked:
        yield {"role": "user", "content": block_content(asked)}


def tools_called(message: AssistantMessage) -> Iterator[tuple[str, str]]:
    """Yield the identifier and the tool of each call in a message."""
    return ((block.id, block.name) for block in message.content if isinstance(block, ToolUseBlock))


def _assistant_message(message: AssistantMessage) -> Message:
    texts, thoughts, calls = list[str](), list[str](), list[Json]()
    for block in message.content:
        match block:
            case TextBlock(text=text):
                texts.append(text)
            case ThinkingBlock(text=thought) if thought:
                thoughts.append(thought)
            case ToolUseBlock(call=call):
                calls.append(call)
    converted: dict[str, Json] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        converted["reasoning_content"] = BREAK.join(thoughts)
    if calls:
        converted["tool_calls"] = calls
    return converted

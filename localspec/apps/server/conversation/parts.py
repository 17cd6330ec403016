"""The parts of messages, by the names that APIs and clients give them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from localspec.apps.server.conversation.entries import Call, Content, Result, joined
from localspec.apps.server.faults import refused
from localspec.apps.server.replies.blocks import SEAL
from localspec.apps.server.requests.fields import Object, TextPart, as_name
from localspec.apps.server.requests.files import FilePart, as_file_text, as_picture, is_picture
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import MediumPart
from localspec.apps.server.requests.validators import ByType, as_object, as_texts

Identity = Annotated[str | None, BeforeValidator(as_name)]


class SearchResult(RequestPart):
    type: Literal["search_result"]
    title: str = ""
    source: str = ""
    content: Parts = Field(default_factory=list)

    @property
    def pieces(self) -> Content:
        return joined(filter(None, (self.title, self.source, *paragraphs(self.content))), "\n")


class ToolReference(RequestPart):
    """A reference to a tool that a search found; the model reads all tools in any case."""

    type: Literal["tool_reference"]
    tool_name: str

    @property
    def pieces(self) -> Content:
        return [f"The tool {self.tool_name} can be called."]


class Source(RequestPart):
    type: str = ""
    data: str = ""
    content: Parts = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def decoded(cls, value: object) -> object:
        if not isinstance(value, dict) or value.get("type") != "base64":
            return value
        if is_picture(value.get("data")):
            return {"type": "content", "content": [{"type": "image", "source": value}]}
        return {**value, "type": "text", "data": as_file_text(value.get("data"))}

    @property
    def pieces(self) -> Content:
        if self.type == "text":
            return [self.data]
        if self.type == "content":
            return paragraphs(self.content)
        problem = f"a 'document' of source {self.type!r:.40} cannot be read"
        raise refused(f"{problem}: send its words, as a source of type text", "messages")


class DocumentPart(RequestPart):
    type: Literal["document"]
    source: Source = Field(default_factory=lambda: Source())
    title: str = ""
    context: str = ""

    @property
    def pieces(self) -> Content:
        return joined(filter(None, (self.title, self.context, *self.source.pieces)))


def as_plain(value: object) -> object:
    """ContentPart a text that stands in lists and objects, as Mistral writes thoughts."""
    match value:
        case list():
            return "".join(text for text in map(as_plain, value) if isinstance(text, str))
        case {"thinking": within} | {"reasoning": within} | {"text": within}:
            return as_plain(within)
    return value


Plain = Annotated[str, BeforeValidator(as_plain)]


def unsealed(text: str | None) -> str:
    """Return a thought that this server sealed for its way to the client and back."""
    return text.removeprefix(SEAL) if text and text.startswith(SEAL) else ""


class ThoughtPart(RequestPart):
    """A thought, as servers and libraries list them."""

    type: str = ""
    thinking: Plain = ""
    reasoning: Plain = ""
    text: Plain = ""
    summary: str = ""
    signature: str = ""

    @property
    def thought(self) -> str:
        shown = self.thinking or self.reasoning or self.text or self.summary
        return shown or unsealed(self.signature)


class ThinkingPart(ThoughtPart):
    type: Literal["thinking", "reasoning"]


class ToolUse(RequestPart):
    type: Literal["tool_use"]
    id: Identity = None
    name: str
    input: Annotated[Object, BeforeValidator(as_object)] = Field(default_factory=dict)

    @property
    def call(self) -> Call:
        return Call(self.id, self.name, self.input)


class ToolResult(RequestPart):
    type: Literal["tool_result"]
    tool_use_id: Identity = None
    content: Parts = Field(default_factory=list)
    is_error: bool = False

    @property
    def result(self) -> Result:
        content = paragraphs(self.content)
        content = joined(("Error: ", *content), "") if self.is_error else content
        return Result(self.tool_use_id, content)


ContentPart = TextPart | FilePart | MediumPart | SearchResult | ToolReference | DocumentPart
Part = Annotated[ContentPart | LeftOut, ByType("text", refuses=True), BeforeValidator(as_picture)]
Parts = Annotated[list[Part], BeforeValidator(as_texts)]
Block = Annotated[
    ContentPart | ThinkingPart | ToolUse | ToolResult | LeftOut,
    ByType("text", refuses=True),
    BeforeValidator(as_picture),
]
Blocks = Annotated[list[Block], BeforeValidator(as_texts)]  # with thoughts, calls and results


def content_of(parts: Iterable[ContentPart | LeftOut]) -> Content:
    read = (part for part in parts if not isinstance(part, LeftOut))
    return [piece for part in read for piece in part.pieces]


def paragraphs(parts: Iterable[ContentPart | LeftOut]) -> Content:
    return joined(content_of(parts))

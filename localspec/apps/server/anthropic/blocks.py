"""Blocks of messages of Anthropic's API: texts, pictures, thoughts, calls and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from localspec.apps.server.faults import refused
from localspec.apps.server.replies.blocks import SEAL
from localspec.apps.server.requests.fields import Object
from localspec.apps.server.requests.files import as_file_text, is_picture
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import ImagePart
from localspec.apps.server.requests.validators import ByType, as_object, as_texts
from localspec.formats.templates.message import Json, Message

BREAK = "\n\n"  # between blocks, each of which is a paragraph or more


class TextBlock(RequestPart):
    type: Literal["text"]
    text: str = ""


class SearchResult(RequestPart):
    type: Literal["search_result"]
    title: str = ""
    source: str = ""
    content: Texts = Field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.title, self.source, joined(self.content))))


class ToolReference(RequestPart):
    """A reference to a tool that a search found; the model reads all tools in any case."""

    type: Literal["tool_reference"]
    tool_name: str

    @property
    def text(self) -> str:
        return f"The tool {self.tool_name} can be called."


class Source(RequestPart):
    type: str = ""
    data: str = ""
    content: Texts = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def decoded(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("type") == "base64":
            return {**value, "data": as_file_text(value.get("data"))}
        return value

    @property
    def words(self) -> str:
        if self.type in ("text", "base64"):
            return self.data
        if self.type == "content":
            return joined(self.content)
        problem = f"a 'document' of source {self.type!r:.40} cannot be read"
        raise refused(f"{problem}: send its words, as a source of type text", "messages")


class DocumentBlock(RequestPart):
    type: Literal["document"]
    source: Source = Field(default_factory=lambda: Source())
    title: str = ""
    context: str = ""

    @property
    def text(self) -> str:
        return BREAK.join(filter(None, (self.title, self.context, self.source.words)))


Words = TextBlock | SearchResult | ToolReference | DocumentBlock
Texts = Annotated[
    list[Annotated[Words | LeftOut, ByType("text", refuses=True)]], BeforeValidator(as_texts)
]


def as_blocks(value: object) -> object:
    """Read blocks; a document that is a picture, or has pictures, as its title and these."""
    blocks = as_texts(value)
    listed = blocks if isinstance(blocks, list) else []
    return [part for block in listed for part in parts_of_document(block)]


def parts_of_document(block: object) -> Iterator[object]:
    source = block.get("source") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(source, dict) or block["type"] != "document":
        yield block
        return
    content = source.get("content")
    if source.get("type") == "base64" and is_picture(source.get("data")):
        content = [{"type": "image", "source": source}]
    if not isinstance(content, list) or not any(map(is_image, content)):
        yield block
        return
    for name in ("title", "context"):
        if block.get(name):
            yield {"type": "text", "text": block[name]}
    yield from content


def is_image(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


Blocks = Annotated[
    list[Annotated[Words | ImagePart | LeftOut, ByType("text", refuses=True)]],
    BeforeValidator(as_blocks),
]


class ThinkingBlock(RequestPart):
    type: Literal["thinking"]
    thinking: str = ""
    signature: str = ""

    @property
    def text(self) -> str:
        sealed = self.signature.removeprefix(SEAL)
        return self.thinking or (sealed if sealed != self.signature else "")


class ToolUseBlock(RequestPart):
    type: Literal["tool_use"]
    id: str
    name: str
    input: Annotated[Object, BeforeValidator(as_object)] = Field(default_factory=dict)

    @property
    def call(self) -> Message:
        function: dict[str, Json] = {"name": self.name, "arguments": self.input}
        return {"id": self.id, "type": "function", "function": function}


class ToolResultBlock(RequestPart):
    type: Literal["tool_result"]
    tool_use_id: str
    content: Blocks = Field(default_factory=list)
    is_error: bool = False

    @property
    def result(self) -> Json:
        content = block_content(self.content)
        if not self.is_error:
            return content
        if isinstance(content, str):
            return f"Error: {content}"
        return [{"type": "text", "text": "Error: "}, *content]


def joined(texts: Sequence[Words | LeftOut]) -> str:
    return BREAK.join(part.text for part in texts if not isinstance(part, LeftOut))


def block_content(blocks: Iterable[Words | ImagePart | LeftOut]) -> list[Json] | str:
    """Join texts; pictures have their places between them."""
    content, texts = list[Json](), list[str]()
    for block in blocks:
        match block:
            case LeftOut():
                continue
            case ImagePart():
                if texts:
                    content.append({"type": "text", "text": BREAK.join(texts)})
                content.append({"type": "image"})
                texts = []
            case words:
                texts.append(words.text)
    last = BREAK.join(texts)
    if not content:
        return last
    return [*content, {"type": "text", "text": last}] if texts else content

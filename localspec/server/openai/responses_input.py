"""The items of /v1/responses, and the messages that chat templates read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.server.faults import refused
from localspec.server.replies.blocks import SEAL
from localspec.server.requests.fields import Object, Strict, TextPart
from localspec.server.requests.given import as_texts, only
from localspec.templates.message import Json, Message

Status = Literal["in_progress", "completed", "incomplete"]


class SaidPart(TextPart):
    """Harmless: what libraries read out of a reply and send back with it."""

    parsed: JsonValue = None
    prompt_cache_breakpoint: Object | None = None


class RefusalPart(Strict):
    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        return self.refusal


Part = Annotated[
    SaidPart | RefusalPart,
    Field(discriminator="type"),
    only("part", "text", "input_text", "output_text", "refusal"),
]
Parts = Annotated[list[Part], BeforeValidator(as_texts)]


class ThoughtPart(Strict):
    type: Literal["reasoning_text", "summary_text"]
    text: str


class Sent(Strict):
    """Harmless: of items of earlier replies, which nobody keeps here."""

    id: str | None = None
    status: Status | None = None


class MessageItem(Sent):
    type: Literal["message"]
    role: Literal["system", "developer", "user", "assistant"]
    content: Parts
    phase: str | None = None  # harmless


class ReasoningItem(Sent):
    type: Literal["reasoning"]
    summary: list[ThoughtPart] = Field(default_factory=list)  # harmless: the whole is there
    content: list[ThoughtPart] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        sealed = self.encrypted_content or ""
        thought = "".join(part.text for part in self.content or ())
        return thought or (sealed.removeprefix(SEAL) if sealed.startswith(SEAL) else "")


class CallItem(Sent):
    type: Literal["function_call"]
    call_id: str
    name: str
    namespace: str | None = None  # harmless: names are told apart without
    arguments: str
    parsed_arguments: JsonValue = None  # harmless: the same again


class OutputItem(Sent):
    type: Literal["function_call_output"]
    call_id: str
    output: Parts
    name: str | None = None


class ReferenceItem(Strict):
    """An item of a response that is kept; the paths put it in its place."""

    type: Literal["item_reference"]
    id: str


Item = Annotated[
    MessageItem | ReasoningItem | CallItem | OutputItem | ReferenceItem,
    Field(discriminator="type"),
    only(
        "item",
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "item_reference",
    ),
]


def as_items(given: object) -> object:
    """A text is short for a message of the user."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


Items = Annotated[list[Item], Field(min_length=1), BeforeValidator(as_items)]

THINKS, SAYS, CALLS, ENDED = range(4)  # a reply goes through them in this order


class Transcript:
    """Puts a reply that was taken apart into items together again."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._reply: dict[str, Json] = {}  # the newest, which may still grow
        self._calls: list[Json] = []  # of it
        self._stage = ENDED
        self._names: dict[str, str] = {}

    def add(self, item: Item) -> None:
        match item:
            case ReasoningItem(text=text):
                if text:
                    self._go_on(THINKS)["reasoning_content"] = text
            case MessageItem(role="assistant"):
                self._go_on(SAYS)["content"] = said(item.content)
            case MessageItem():
                self._put({"role": item.role, "content": said(item.content)})
            case CallItem():
                self._call(item)
            case OutputItem():
                name = item.name or self._names.get(item.call_id)
                output: Message = {"tool_call_id": item.call_id, "content": said(item.output)}
                self._put({"role": "tool", **output, **({"name": name} if name else {})})
            case ReferenceItem():
                raise refused(f"there is no item {item.id[:80]!r} here: send it whole", "input")

    def _put(self, message: Message) -> None:
        self.messages.append(message)
        self._stage = ENDED

    def _go_on(self, stage: int) -> dict[str, Json]:
        if stage < self._stage or stage == self._stage != CALLS:
            self._reply, self._calls = {"role": "assistant"}, []
            self.messages.append(self._reply)
        self._stage = stage
        return self._reply

    def _call(self, item: CallItem) -> None:
        self._names[item.call_id] = item.name
        reply = self._go_on(CALLS)
        function = {"name": item.name, "arguments": item.arguments}
        self._calls.append({"id": item.call_id, "type": "function", "function": function})
        reply["tool_calls"] = self._calls


def said(parts: Sequence[Part]) -> Json:
    texts = [part.text for part in parts]
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": each} for each in texts]

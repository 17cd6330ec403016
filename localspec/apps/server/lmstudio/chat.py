"""The request of /api/v1/chat, and its answers, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, field_validator
from pydantic_core import PydanticCustomError

from localspec.apps.server.faults import Fault, openai_error
from localspec.apps.server.replies.blocks import Block, Blocks, Change, Closed, Grown, Kind, Opened
from localspec.apps.server.replies.frame import named_event as event
from localspec.apps.server.replies.reply import Choices, Step
from localspec.apps.server.replies.streaming import Bodies
from localspec.apps.server.requests.fields import MaxTokens, TextRequest
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import ImagePart, MediaReference, references_in
from localspec.apps.server.requests.prepared import Prepared, prepare_conversation
from localspec.apps.server.requests.thinking import ThoughtFields, reasoning
from localspec.apps.server.requests.validators import ByType
from localspec.apps.server.served import Served
from localspec.formats.templates.message import Json, Message
from localspec.interfaces.media import Medium
from localspec.running.runtime.prompting import Conversation

KINDS: Mapping[Kind, str] = {"text": "message", "thought": "reasoning", "call": "message"}
EFFORTS = {"off": "none", "on": None}


class TextInput(RequestPart):
    type: Literal["text", "message"]
    content: str = ""


Input = Annotated[TextInput | ImagePart | LeftOut, ByType(refuses=True)]


def as_inputs(value: object) -> object:
    """Read a text as a list of one part."""
    return [{"type": "text", "content": value}] if isinstance(value, str) else value


class LmStudioChatRequest(ThoughtFields, TextRequest):
    input: Annotated[list[Input], BeforeValidator(as_inputs)]
    system_prompt: str = ""
    stream: bool = False
    max_output_tokens: MaxTokens = None
    reasoning: str | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    context_length: int | None = None
    integrations: list[JsonValue] = Field(default_factory=list)

    @field_validator("previous_response_id")
    @classmethod
    def refuse_previous(cls, value: str | None) -> str | None:
        if value:
            raise PydanticCustomError(
                "not_here",
                "conversations are not kept under this path: go on from one by /v1/responses",
            )
        return value

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.integrations:
            yield "integrations"
        if self.store:
            yield "store"

    def references(self) -> list[MediaReference]:
        return list(references_in(self.input))

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        rules: list[Message] = [{"role": "system", "content": self.system_prompt}]
        asked: Message = {"role": "user", "content": content(self.input)}
        messages = [*(rules if self.system_prompt else ()), asked]
        effort = EFFORTS.get(self.reasoning or "", self.reasoning)
        conversation = Conversation(messages, extra=reasoning(effort), media=media)
        settings = self.with_own_budget(self.base_settings(served, self.max_output_tokens))
        return [prepare_conversation(served, conversation, settings)]


def content(parts: Sequence[TextInput | ImagePart | LeftOut]) -> Json:
    """Join texts, a line or more each; pictures have their places between them."""
    listed: list[Json] = []
    for is_image, run in groupby(parts, lambda part: isinstance(part, ImagePart)):
        if is_image:
            listed += [{"type": "image"} for _ in run]
        else:
            text = "\n".join(part.content for part in run if isinstance(part, TextInput))
            listed.append({"type": "text", "text": text})
    match listed:
        case [{"text": only}]:
            return only
    return listed


def stream_error(fault: Fault) -> bytes:
    """Encode the end of a stream that cannot go on."""
    return event("error", openai_error(fault))


@dataclass(slots=True, eq=False)
class LmStudioAnswer:
    choices: Choices
    blocks: Blocks = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = Blocks(self.choices)

    async def whole(self) -> Mapping[str, object]:
        await self.blocks.read_all()
        return self._result()

    def opening(self) -> Bodies:
        name = {"model_instance_id": self.choices.served.name}
        return [event("chat.start", name), event("prompt_processing.start", {})]

    def bodies(self, number: int, step: Step | None) -> Bodies:
        if step is None:
            return [None]
        first = [] if self.blocks.all else [event("prompt_processing.end", {})]
        events = [body for change in self.blocks.changes(step) for body in change_events(change)]
        return [*first, *events] if events else []

    async def closing(self) -> Bodies:
        events = [body for change in self.blocks.end() for body in change_events(change)]
        return [*events, event("chat.end", {"result": self._result()})]

    def _result(self) -> Mapping[str, object]:
        result = self.blocks.reply.result
        used, timings = result.usage, result.timings
        return {
            "model_instance_id": self.choices.served.name,
            "output": [output_item(block) for block in self.blocks.all],
            "stats": {
                "input_tokens": used.prompt_tokens,
                "total_output_tokens": used.completion_tokens,
                "reasoning_output_tokens": used.reasoning_tokens,
                "tokens_per_second": timings.tokens_per_second or 0.0,
                "time_to_first_token_seconds": timings.first_token or timings.total,
            },
        }


def output_item(block: Block) -> Mapping[str, object]:
    return {"type": KINDS[block.kind], "content": block.text}


def change_events(change: Change) -> Iterator[bytes]:
    kind = KINDS[change.block.kind]
    match change:
        case Opened():
            yield event(f"{kind}.start", {})
        case Grown(_, text, _):
            yield event(f"{kind}.delta", {"content": text})
        case Closed():
            yield event(f"{kind}.end", {})

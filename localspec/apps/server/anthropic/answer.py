"""Answers of /v1/messages, whole or as a stream of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from localspec.apps.server.anthropic.request import MessagesRequest
from localspec.apps.server.faults import Fault
from localspec.apps.server.replies.blocks import (
    SEAL,
    Block,
    Blocks,
    Change,
    Closed,
    Grown,
    Kind,
    Opened,
)
from localspec.apps.server.replies.frame import MARK, Frame, new_id
from localspec.apps.server.replies.frame import named_event as event
from localspec.apps.server.replies.reply import Choices, Step
from localspec.apps.server.replies.streaming import Bodies

Data = dict[str, object]
DELTAS: Mapping[Kind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "thought": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


PING = event("ping", {})


def error_body(fault: Fault) -> Mapping[str, object]:
    return {"type": "error", "error": {"type": fault.kind, "message": fault.message}}


def stream_error(fault: Fault) -> bytes:
    """Encode the end of a stream that cannot go on."""
    return event("error", error_body(fault))


@dataclass(slots=True, eq=False)
class MessagesAnswer:
    choices: Choices
    hides_thoughts: bool
    says_nothing: bool = False  # of a prompt that is only to be held
    blocks: Blocks = field(init=False)
    id: str = field(default_factory=lambda: new_id("msg_"))
    _grown: tuple[Block, Frame] | None = None  # the newest block that grew

    def __post_init__(self) -> None:
        self.blocks = Blocks(self.choices)

    @classmethod
    def of(cls, request: MessagesRequest, choices: Choices) -> MessagesAnswer:
        return cls(choices, request.hides_thoughts, request.max_tokens == 0)

    async def whole(self) -> Data:
        await self.blocks.read_all()
        blocks = [] if self.says_nothing else self.blocks.all
        content = [self._content(block) for block in blocks]
        return self._message(content, self._usage()) | self._stop()

    def opening(self) -> Bodies:
        usage: Data = {"input_tokens": len(self.blocks.reply.prepared.tokens), "output_tokens": 0}
        return [event("message_start", {"message": self._message([], usage)})]

    def bodies(self, number: int, step: Step | None) -> Bodies:
        if step is None:
            return [PING]
        return [body for change in self.blocks.changes(step) for body in self._events(change)]

    async def closing(self) -> Bodies:
        events = [body for change in self.blocks.end() for body in self._events(change)]
        return [
            *events,
            event("message_delta", {"delta": self._stop(), "usage": self._usage()}),
            event("message_stop", {}),
        ]

    def _events(self, change: Change) -> Iterator[bytes]:
        if self.says_nothing:
            return
        index = {"index": change.block.index}
        match change:
            case Opened(block):
                yield event("content_block_start", index | {"content_block": self._empty(block)})
            case Grown(block, text):
                if block.kind != "thought" or not self.hides_thoughts:
                    yield self._frame(block).around(text)
            case Closed(block):
                if block.kind == "thought":
                    delta = {"type": "signature_delta", "signature": self._signature(block)}
                    yield event("content_block_delta", index | {"delta": delta})
                yield event("content_block_stop", index)

    def _empty(self, block: Block) -> Data:
        """Write a block as it begins."""
        match block.kind:
            case "text":
                return {"type": "text", "text": ""}
            case "thought":
                return {"type": "thinking", "thinking": "", "signature": ""}
            case "call":
                id = f"toolu_{block.id}"
                return {"type": "tool_use", "id": id, "name": block.name, "input": {}}

    def _frame(self, block: Block) -> Frame:
        """Encode the event once, with a gap for the text."""
        if self._grown is None or self._grown[0] is not block:
            kind, name = DELTAS[block.kind]
            data = {"index": block.index, "delta": {"type": kind, name: MARK}}
            whole = event("content_block_delta", data)
            self._grown = block, Frame.split(whole)
        return self._grown[1]

    def _content(self, block: Block) -> Data:
        empty = self._empty(block)
        match block.kind:
            case "text":
                return empty | {"text": block.text}
            case "thought":
                shown = "" if self.hides_thoughts else block.text
                return empty | {"thinking": shown, "signature": self._signature(block)}
            case "call":
                return empty | {"input": call_input(block)}

    def _signature(self, block: Block) -> str:
        """Make the signature of a thought; it holds the text of a hidden one."""
        return SEAL + (block.text if self.hides_thoughts else "")

    def _message(self, content: list[Data], usage: Data) -> Data:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.choices.served.name,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }

    def _stop(self) -> Data:
        reply = self.blocks.reply
        result, limit = reply.result, reply.prepared.settings.max_tokens or 0
        stop_string, reason = result.stopped_by, "end_turn"
        if reply.finish == "length":
            spent = result.usage.completion_tokens >= limit
            reason = "max_tokens" if spent else "model_context_window_exceeded"
        elif stop_string is not None:
            reason = "stop_sequence"
        elif reply.calls:
            reason = "tool_use"
        return {"stop_reason": reason, "stop_sequence": stop_string}

    def _usage(self) -> Data:
        used = self.blocks.reply.result.usage
        return {
            "input_tokens": used.prompt_tokens - used.cached_tokens,
            "cache_read_input_tokens": used.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": 0 if self.says_nothing else used.completion_tokens,
            "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
        }


def call_input(block: Block) -> object:
    """Read the arguments of a call, as far as possible where the reply was cut.

    Text that is not JSON is passed on as such: a client has to see it to tell the model.
    """
    try:
        arguments = from_json(block.text or "{}", allow_partial=block.status == "incomplete")
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"INVALID_JSON": block.text}

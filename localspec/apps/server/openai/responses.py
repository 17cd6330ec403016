"""Answers of /v1/responses, whole or as a stream of events."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from localspec.apps.server.faults import Fault
from localspec.apps.server.openai.response_store import item_id
from localspec.apps.server.openai.responses_calls import CalledItem, call_item
from localspec.apps.server.openai.responses_request import LOGPROBS, SEALED, ResponsesRequest
from localspec.apps.server.openai.responses_tools import ModelTool
from localspec.apps.server.replies.blocks import (
    SEAL,
    Block,
    Blocks,
    Change,
    Closed,
    Grown,
    Kind,
    Opened,
    Status,
)
from localspec.apps.server.replies.frame import named_event, new_id
from localspec.apps.server.replies.reply import Choices, Step
from localspec.apps.server.replies.spelling import Spelling
from localspec.apps.server.replies.streaming import Bodies
from localspec.core.sampling.logprobs import EmittedLogprob

Data = dict[str, object]

EVENTS: Mapping[Kind, str] = {
    "text": "response.output_text",
    "thought": "response.reasoning_text",
    "call": "response.function_call_arguments",
}


@dataclass(frozen=True, slots=True)
class Numbered:
    """The events of one stream."""

    numbers: Iterator[int] = field(default_factory=count)

    def event(self, kind: str, data: Mapping[str, object]) -> bytes:
        return named_event(kind, {"sequence_number": next(self.numbers), **data})

    def stream_error(self, fault: Fault) -> bytes:
        """Encode the end of a stream that cannot go on."""
        error = {"code": fault.code or fault.kind, "message": fault.message, "param": fault.param}
        return self.event("error", error)


@dataclass(slots=True, eq=False)
class ResponsesAnswer:
    request: ResponsesRequest
    tools: Mapping[str, ModelTool]
    keep: Callable[[Data], Awaitable[None]]  # for later requests, before a client hears of its end
    events: Numbered
    choices: Choices
    blocks: Blocks = field(init=False)
    echo: Mapping[str, object] = field(init=False)  # of the request: made once, as it may be long
    id: str = field(default_factory=lambda: new_id("resp_"))
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.blocks = Blocks(self.choices)
        self.echo = self.request.echo()

    async def whole(self) -> Data:
        await self.blocks.read_all()
        response = self._final_response()
        await self.keep(response)
        return response

    def opening(self) -> Bodies:
        begun = {"response": self._response("in_progress")}
        kinds = ("response.created", "response.in_progress")
        return [self.events.event(kind, begun) for kind in kinds]

    def bodies(self, number: int, step: Step | None) -> Bodies:
        if step is None:
            return [None]
        return [body for change in self.blocks.changes(step) for body in self._events(change)]

    async def closing(self) -> Bodies:
        events = [body for change in self.blocks.end() for body in self._events(change)]
        response = self._final_response()
        await self.keep(response)
        end = self.events.event(f"response.{response['status']}", {"response": response})
        return [*events, end]

    def _events(self, change: Change) -> Iterator[bytes]:
        block, event = change.block, self.events.event
        item: Data = {"output_index": block.index}
        place = item | {"item_id": self._id(block)}
        if block.kind != "call":
            place["content_index"] = 0
        name = EVENTS[block.kind]
        match change:
            case Opened():
                yield event("response.output_item.added", item | {"item": self._item(block)})
                if block.kind != "call":
                    part = {"part": self._part(block)}
                    yield event("response.content_part.added", place | part)
            case Grown(_, text, logprobs):
                if block.kind != "call" or self._call_item(block).streams:
                    logged = self._logged(block, logprobs)
                    yield event(f"{name}.delta", place | {"delta": text} | logged)
            case Closed():
                if block.kind == "call":
                    for kind, more in self._call_item(block).ends(block.text):
                        yield event(kind, place | more)
                else:
                    logged = self._logged(block, block.logprobs)
                    yield event(f"{name}.done", place | {"text": block.text} | logged)
                    part = {"part": self._part(block)}
                    yield event("response.content_part.done", place | part)
                yield event("response.output_item.done", item | {"item": self._item(block)})

    def _call_item(self, block: Block) -> CalledItem:
        return call_item(self.tools.get(block.name), block.name)

    def _id(self, block: Block) -> str:
        kind = {"text": "msg", "thought": "rs", "call": "fc"}[block.kind]
        return item_id(kind, self.id, f"o{block.index}")

    def _item(self, block: Block) -> Data:
        item = {"id": self._id(block), "status": block.status}
        parts = [] if block.status == "in_progress" else [self._part(block)]
        match block.kind:
            case "text":
                return {**item, "type": "message", "role": "assistant", "content": parts}
            case "thought":
                sealed = SEAL + block.text if self.request.wants(SEALED) else None
                thought = {"type": "reasoning", "summary": [], "content": parts}
                return {**item, **thought, "encrypted_content": sealed}
            case "call":
                call = self._call_item(block).item(block.text)
                return {**item, "call_id": f"call_{block.id}", **call}

    def _part(self, block: Block) -> Data:
        if block.kind == "thought":
            return {"type": "reasoning_text", "text": block.text}
        part = {"type": "output_text", "text": block.text, "annotations": []}
        return part | self._logged(block, block.logprobs)

    def _logged(self, block: Block, logprobs: Sequence[EmittedLogprob]) -> Data:
        """List log-probabilities of texts, where they are wanted."""
        if block.kind != "text":
            return {}
        spelling = Spelling(self.choices.served.runtime.tokenizer)
        wants = self.request.wants(LOGPROBS)
        return {"logprobs": spelling.chat_logprobs(logprobs) if wants else []}

    def _response(self, status: Status) -> Data:
        return {
            **self.echo,
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "model": self.choices.served.name,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }

    def _final_response(self) -> Data:
        cut = self.blocks.reply.finish == "length"
        return {
            **self._response("incomplete" if cut else "completed"),
            "completed_at": None if cut else int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [self._item(block) for block in self.blocks.all],
            "usage": self._usage(),
        }

    def _usage(self) -> Data:
        used = self.blocks.reply.result.usage
        return {
            "input_tokens": used.prompt_tokens,
            "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": used.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
            "total_tokens": used.prompt_tokens + used.completion_tokens,
        }

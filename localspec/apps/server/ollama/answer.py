"""Answers of /api/chat and /api/generate, whole or as lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

from localspec.apps.server.faults import Fault
from localspec.apps.server.replies.frame import new_id
from localspec.apps.server.replies.reply import Called, Choices, Step, content_of
from localspec.apps.server.replies.spelling import Spelling
from localspec.apps.server.replies.streaming import Bodies
from localspec.core.sampling.logprobs import EmittedLogprob
from localspec.formats.dialects import Reasoning

Kind = Literal["chat", "generate"]

NOT_DONE: Mapping[str, object] = MappingProxyType({"done": False})


def line(data: Mapping[str, object]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def error_body(fault: Fault) -> Mapping[str, object]:
    return {"error": fault.message}


def stream_error(fault: Fault) -> bytes:
    """Encode the end of a stream that cannot go on."""
    return line(error_body(fault))


@dataclass(frozen=True, slots=True)
class OllamaFormat:
    """The format of replies of one of the two paths."""

    model: str  # as it was asked for
    kind: Kind

    def body(
        self,
        content: str,
        thinking: str = "",
        calls: Sequence[object] = (),
        end: Mapping[str, object] = NOT_DONE,
    ) -> dict[str, object]:
        extras: dict[str, object] = {}
        if thinking:
            extras["thinking"] = thinking
        if calls:
            extras["tool_calls"] = calls
        content_fields: dict[str, object] = {"response": content, **extras}
        if self.kind == "chat":
            content_fields = {"message": {"role": "assistant", "content": content, **extras}}
        return {"model": self.model, "created_at": now(), **content_fields, **end}

    def loaded(self, reason: str = "load") -> dict[str, object]:
        return self.body("", end={"done": True, "done_reason": reason})


@dataclass(slots=True, eq=False)
class OllamaAnswer:
    format: OllamaFormat
    begun: float  # when the request came, by the performance counter
    choices: Choices
    _queued: float = field(default_factory=time.perf_counter)
    _called: int = 0  # calls that were sent

    async def whole(self) -> dict[str, object]:
        await self.choices.wait()
        [reply] = self.choices.replies
        calls, logged = call_objects(reply.calls), self._logged(reply.result.logprobs or ())
        return self.format.body(reply.content, reply.reasoning, calls, {**self._end(), **logged})

    def opening(self) -> Bodies:
        return ()

    def bodies(self, number: int, step: Step | None) -> Bodies:
        return [self._line(step) if step else None]

    async def closing(self) -> Bodies:
        return [line(self.format.body("", end=self._end()))]

    def _line(self, step: Step) -> bytes | None:
        """Encode a line; a call is sent once it is whole."""
        calls = self.choices.replies[0].calls
        whole = max(len(calls) - (step.chunk is not None), self._called)
        content = content_of(step.parts)
        thinking = "".join(part.text for part in step.parts if isinstance(part, Reasoning))
        fresh = call_objects(calls[self._called : whole], self._called)
        self._called = whole
        logged = self._logged(step.chunk.logprobs if step.chunk else ())
        if content or thinking or fresh or logged:
            return line(self.format.body(content, thinking, fresh, {**NOT_DONE, **logged}))
        return None

    def _logged(self, logprobs: Sequence[EmittedLogprob]) -> Mapping[str, object]:
        listed = Spelling(self.choices.served.runtime.tokenizer).chat_logprobs(logprobs)
        return {"logprobs": listed} if listed else {}

    def _end(self) -> dict[str, object]:
        [reply] = self.choices.replies
        used, timings = reply.result.usage, reply.result.timings
        read = (timings.first_token or timings.total) - timings.queued
        extras: dict[str, object] = {}
        if self.format.kind == "generate":
            prompt = [token for token in reply.prepared.tokens if token >= 0]  # below: pictures
            extras["context"] = [*prompt, *reply.result.tokens]
        return {
            "done": True,
            **extras,
            "done_reason": "length" if reply.finish == "length" else "stop",
            "total_duration": nanoseconds(time.perf_counter() - self.begun),
            "load_duration": nanoseconds(self._queued - self.begun),
            "prompt_eval_count": used.prompt_tokens,
            "prompt_eval_duration": nanoseconds(read),
            "eval_count": used.completion_tokens,
            "eval_duration": nanoseconds(timings.total - timings.queued - read),
        }


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def call_objects(calls: Iterable[Called], first: int = 0) -> list[dict[str, object]]:
    """List calls with their arguments as objects; one that was cut short has none."""
    listed: list[dict[str, object]] = []
    for index, call in enumerate(calls, first):
        try:
            arguments = portable(json.loads(call.arguments or "{}"))
        except ValueError:
            continue
        function = {"index": index, "name": call.name, "arguments": arguments}
        listed.append({"id": new_id("call_"), "function": function})
    return listed


def portable(data: object) -> object:
    """Remove half letters; raise a `ValueError` for numbers that JSON cannot write."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    return json.loads(text.encode("utf-8", "replace"))

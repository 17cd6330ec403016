"""Answers of /v1/chat/completions, whole or as a stream of chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field

from localspec.dialects import Arguments, Call, Content, Part, Reasoning
from localspec.job import Chunk
from localspec.server.faults import Fault
from localspec.server.figures import timings, usage
from localspec.server.openai.chat_request import ChatRequest
from localspec.server.openai.logprobs import Spelling
from localspec.server.reply import Choices, Reply, Step
from localspec.server.streaming import Events

DONE = b"data: [DONE]\n\n"


def new_id(kind: str) -> str:
    return f"{kind}{secrets.token_hex(12)}"


def event(data: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def failing(fault: Fault) -> bytes:
    """How a stream ends that cannot go on."""
    return event(fault.openai()) + DONE


@dataclass(slots=True, eq=False)
class ChatAnswer:
    model: str
    choices: Choices
    spelling: Spelling | None = None  # of tokens, where log-probabilities are wanted
    wants_usage: bool = False
    id: str = field(default_factory=lambda: new_id("chatcmpl-"))
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(cls, asked: ChatRequest, choices: Choices) -> ChatAnswer:
        spelling = Spelling(choices.served.runtime.tokenizer) if asked.logprobs else None
        return cls(choices.served.name, choices, spelling, asked.wants_usage)

    async def whole(self) -> dict[str, object]:
        await self.choices.whole()
        replies = self.choices.replies
        return {
            **self._head("chat.completion"),
            "choices": [self._choice(*each) for each in enumerate(replies)],
            "usage": usage(self.choices),
            "timings": timings(replies[0].result),
        }

    async def stream(self) -> Events:
        for number in range(len(self.choices.replies)):
            yield self._chunk(number, {"role": "assistant", "content": ""})
        async with aclosing(self.choices.steps()) as steps:
            async for number, step in steps:
                if step is None:
                    yield None
                    continue
                for body in self._bodies(number, step):
                    yield body
        if self.wants_usage:
            counted = {"choices": [], "usage": usage(self.choices)}
            yield event(self._head("chat.completion.chunk") | counted)
        yield DONE

    def _bodies(self, number: int, step: Step) -> list[bytes]:
        logprobs = self._logprobs(step.chunk)
        bodies = []
        for delta in deltas(step.parts) or ([{}] if logprobs else []):
            bodies.append(self._chunk(number, delta, logprobs=logprobs))
            logprobs = None
        if step.chunk is None:
            reply = self.choices.replies[number]
            more = {"timings": timings(reply.result)}
            bodies.append(self._chunk(number, {}, finish=reply.finish, more=more))
        return bodies

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(
        self,
        number: int,
        delta: Mapping[str, object],
        *,
        finish: str | None = None,
        logprobs: object = None,
        more: Mapping[str, object] = {},
    ) -> bytes:
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **more})

    def _choice(self, number: int, reply: Reply) -> dict[str, object]:
        message: dict[str, object] = {"role": "assistant", "content": reply.content or None}
        if reply.content == "" and not reply.calls:
            message["content"] = ""
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [
                {"id": new_id("call_"), "type": "function", "function": asdict(call)}
                for call in reply.calls
            ]
        found = self.spelling.listed(reply.result.logprobs or ()) if self.spelling else None
        return {
            "index": number,
            "message": message,
            "logprobs": None if found is None else {"content": found, "refusal": None},
            "finish_reason": reply.finish,
        }

    def _logprobs(self, chunk: Chunk | None) -> object:
        if chunk is None or self.spelling is None:
            return None
        found = self.spelling.listed(chunk.logprobs)
        return {"content": found, "refusal": None} if found else None


def deltas(parts: Sequence[Part]) -> list[dict[str, object]]:
    """One for each part, as clients put them together again."""
    found: list[dict[str, object]] = []
    for part in parts:
        match part:
            case Content(text):
                found.append({"content": text})
            case Reasoning(text):
                found.append({"reasoning_content": text})
            case Call(index, name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": new_id("call_"), "type": "function"}
                found.append({"tool_calls": [call | {"function": function}]})
            case Arguments(index, text):
                call = {"index": index, "function": {"arguments": text}}
                found.append({"tool_calls": [call]})
    return found

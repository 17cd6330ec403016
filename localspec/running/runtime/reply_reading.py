"""Splits a reply in a chat into its answer, its reasoning and its calls of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localspec.core.requests.job import Chunk, Event, Result, ToolCall
from localspec.core.requests.worker import Reads
from localspec.formats.dialects import Arguments, Call, Content, Part, Reasoning, ReplyReader
from localspec.running.runtime.reply_options import MAX_TOKENS


def tell_of_limit(reads: Reads) -> Reads:
    """Report a reply that was cut at a length that its caller did not choose."""

    def read(event: Event) -> Sequence[Event]:
        if isinstance(event, Result) and event.finish_reason == "length":
            event = replace(event, notices=(*event.notices, *limit_notice(len(event.tokens))))
        return reads(event)

    return read


def limit_notice(tokens: int) -> Sequence[str]:
    if tokens < MAX_TOKENS:  # the context was full before
        return ()
    return (
        f"the reply was cut at {tokens:,} tokens, the limit where max_tokens is not given: give "
        "more, or None for no limit but the context",
    )


class ReplyReading:
    """Takes the events of one reply as they come from the model."""

    def __init__(self, reader: ReplyReader) -> None:
        self._reader = reader
        self._text = self._reasoning = ""
        self._calls: list[ToolCall] = []

    def __call__(self, event: Event) -> Sequence[Event]:
        match event:
            case Chunk():
                return (self._chunk(event, self._reader.read(event.text)),)
            case Result():
                last = self._chunk(Chunk("", (), 0, ""), self._reader.close())
                return (*((last,) if last.text or last.reasoning else ()), self._result(event))
            case _:
                return (event,)

    def _chunk(self, chunk: Chunk, parts: Sequence[Part]) -> Chunk:
        text = "".join(part.text for part in parts if isinstance(part, Content))
        reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
        self._text += text
        self._reasoning += reasoning
        for part in parts:
            match part:
                case Call(_, name):
                    self._calls.append(ToolCall(name, ""))
                case Arguments(index, more):
                    call = self._calls[index]
                    self._calls[index] = replace(call, arguments=call.arguments + more)
        return chunk._replace(text=text, reasoning=reasoning)

    def _result(self, result: Result) -> Result:
        return replace(
            result, text=self._text, reasoning=self._reasoning, tool_calls=tuple(self._calls)
        )

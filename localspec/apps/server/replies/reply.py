"""Replies, taken apart while they come: text, reasoning, calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from localspec.apps.server.replies.exchange import Arrival, Exchange, Inbox, Limit, Watch
from localspec.apps.server.requests.prepared import Prepared
from localspec.apps.server.served import Served
from localspec.core.requests.job import Chunk, Result
from localspec.formats.dialects import Arguments, Call, Content, Part, Reasoning, ReplyReader

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(slots=True)
class Called:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """The parts of one round; the last step has no chunk, only parts that were held back."""

    parts: Sequence[Part]
    chunk: Chunk | None = None


Numbered = tuple[int, Step | None]  # of which reply; None: nothing came for a while


def content_of(parts: Sequence[Part]) -> str:
    """Join the content among parts."""
    return "".join(part.text for part in parts if isinstance(part, Content))


@dataclass(slots=True, eq=False)
class Reply:
    prepared: Prepared
    exchange: Exchange
    reader: ReplyReader
    reasoning: str = ""
    calls: list[Called] = field(default_factory=list)
    ended: Result | None = None
    _texts: list[str] = field(default_factory=list)

    @classmethod
    def to(cls, prepared: Prepared, exchange: Exchange) -> Reply:
        return cls(prepared, exchange, prepared.reader())

    @property
    def content(self) -> str:
        return "".join(self._texts)

    @property
    def result(self) -> Result:
        assert self.ended is not None, "read before its end"
        return self.ended

    @property
    def finish(self) -> Finish:
        if self.result.finish_reason != "stop":
            return "length"  # of tokens or of time
        return "tool_calls" if self.calls else "stop"

    async def begin(self) -> None:
        """Queue the request; raise what is wrong with it."""
        prepared = self.prepared
        await self.exchange.begin(prepared.served, prepared.tokens, prepared.settings)

    def step_of(self, event: Chunk | Result) -> Step:
        """Take the text of an event apart."""
        if isinstance(event, Chunk):
            return Step(self._noted(self.reader.read(event.text)), event)
        self.ended = event
        return Step(self._noted(self.reader.close()))

    def _noted(self, parts: Sequence[Part]) -> Sequence[Part]:
        for part in parts:
            match part:
                case Content(text):
                    self._texts.append(text)
                case Reasoning(text):
                    self.reasoning += text
                case Call(_, name):
                    self.calls.append(Called(name))
                case Arguments(index, text):
                    self.calls[index].arguments += text
        return parts


class Choices:
    """All replies to a request; those to one prompt share the KV cache of the first."""

    def __init__(self, prompts: Sequence[Prepared], limit: Limit, copies: int) -> None:
        self.copies = copies  # replies to each prompt
        self._bell = prompts[0].served.bell
        self._inbox = Inbox(self._bell)
        prepared = [reseeded(prompt, copy) for prompt in prompts for copy in range(copies)]
        self.replies = [
            Reply.to(request, Exchange(limit, self._inbox, number))
            for number, request in enumerate(prepared)
        ]
        self._watch = Watch([reply.exchange for reply in self.replies])
        self._open = len(self.replies)
        self._later = {number for number in range(self._open) if number % copies}  # to be begun
        self._beginning: list[asyncio.Task[None]] = []

    @property
    def served(self) -> Served:
        return self.replies[0].prepared.served

    @property
    def firsts(self) -> Sequence[Reply]:
        """Return the first reply to each prompt."""
        return self.replies[:: self.copies]

    @property
    def over(self) -> bool:
        """Return whether all replies have ended."""
        return not self._open

    async def begin(self) -> None:
        for reply in self.firsts:
            await reply.begin()

    def cancel(self) -> None:
        for reply in self.replies:
            reply.exchange.cancel()

    async def steps(self) -> AsyncGenerator[Sequence[Numbered]]:
        """Yield steps of all replies as they come, with their numbers; free slots at the end."""
        for reply in self.firsts:
            self._watch.start(reply.exchange)
        self._bell.replies += 1
        try:
            while self._open:
                steps, error = self._steps_of(await self._inbox.arrivals())
                if steps:
                    yield steps
                if error:
                    raise error
        finally:
            self._bell.replies -= 1
            self.cancel()
            self._watch.stop()
            for task in self._beginning:
                task.cancel()
            await asyncio.gather(*self._beginning, return_exceptions=True)

    async def wait(self) -> None:
        async with aclosing(self.steps()) as steps:
            async for _ in steps:
                pass

    def _steps_of(self, arrivals: Sequence[Arrival]) -> tuple[list[Numbered], Exception | None]:
        """Turn arrivals into steps, up to an error."""
        now, steps = self._watch.now(), list[Numbered]()
        for number, event in arrivals:
            if isinstance(event, Exception):
                return steps, event
            if event is None:
                steps.append((number, None))
                continue
            reply = self.replies[number]
            step = reply.step_of(event)
            if step.parts:
                reply.exchange.hear(now)
            steps.append((number, step))
            self._open -= isinstance(event, Result)
            if self._later:
                self._begin_copies(number)
        return steps, None

    def _begin_copies(self, first: int) -> None:
        for number in range(first + 1, first - first % self.copies + self.copies):
            if number in self._later:
                self._later.remove(number)
                self._beginning.append(asyncio.create_task(self._begin_copy(number)))

    async def _begin_copy(self, number: int) -> None:
        reply = self.replies[number]
        try:
            await reply.begin()
            self._watch.start(reply.exchange)
        except Exception as error:
            self._inbox.put(number, error)


def reseeded(prepared: Prepared, copy: int) -> Prepared:
    """Give each reply to a prompt a seed of its own."""
    seed = prepared.settings.seed
    if seed is None or not copy:
        return prepared
    return replace(prepared, settings=replace(prepared.settings, seed=(seed + copy) % (1 << 64)))

"""A reply taken apart while it comes: what it says, what it thinks, what it calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Literal

from localspec.dialects import Arguments, Call, Content, Part, Reasoning
from localspec.job import Chunk, Result
from localspec.server.asking import Prepared, Reads
from localspec.server.exchange import Exchange, Limit
from localspec.server.house import Served

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(slots=True)
class Called:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What one round brought; the last has no chunk, only what was held back."""

    parts: Sequence[Part]
    chunk: Chunk | None = None


def said(parts: Sequence[Part]) -> str:
    """The content among parts."""
    return "".join(part.text for part in parts if isinstance(part, Content))


@dataclass(slots=True, eq=False)
class Reply:
    prepared: Prepared
    exchange: Exchange
    reader: Reads
    content: str = ""
    reasoning: str = ""
    calls: list[Called] = field(default_factory=list)

    @classmethod
    def to(cls, prepared: Prepared, limit: Limit) -> Reply:
        return cls(prepared, Exchange(limit), prepared.reader())

    @property
    def result(self) -> Result:
        assert self.exchange.result is not None, "read before its end"
        return self.exchange.result

    @property
    def finish(self) -> Finish:
        if self.result.finish_reason != "stop":
            return "length"  # of tokens or of time
        return "tool_calls" if self.calls else "stop"

    async def begin(self) -> None:
        """Queue it; what is wrong with the request is raised here."""
        wish = self.prepared
        await self.exchange.begin(wish.served, wish.tokens, wish.settings)

    async def steps(self) -> AsyncGenerator[Step | None]:
        """All of it, and its slot free again however this ends."""
        try:
            async for chunk in self.exchange.chunks():
                yield self._step(self.reader.read(chunk.text), chunk) if chunk else None
            yield self._step(self.reader.close())
        finally:
            self.exchange.cancel()

    def _step(self, parts: Sequence[Part], chunk: Chunk | None = None) -> Step:
        for part in parts:
            match part:
                case Content(text):
                    self.content += text
                case Reasoning(text):
                    self.reasoning += text
                case Call(_, name):
                    self.calls.append(Called(name))
                case Arguments(index, text):
                    self.calls[index].arguments += text
        return Step(parts, chunk)


Events = asyncio.Queue[tuple[int, Step | None] | Exception | None]


@dataclass(slots=True, eq=False)
class Choices:
    """Several replies; those to one prompt share what the first of them has read."""

    replies: Sequence[Reply]
    copies: int  # replies to each prompt

    @classmethod
    def to(cls, prompts: Sequence[Prepared], limit: Limit, copies: int) -> Choices:
        each = [sown(prompt, copy) for prompt in prompts for copy in range(copies)]
        return cls([Reply.to(one, limit) for one in each], copies)

    @property
    def served(self) -> Served:
        return self.replies[0].prepared.served

    @property
    def firsts(self) -> Sequence[Reply]:
        """One reply to each prompt."""
        return self.replies[:: self.copies]

    async def begin(self) -> None:
        for reply in self.firsts:
            await reply.begin()

    def cancel(self) -> None:
        for reply in self.replies:
            reply.exchange.cancel()

    async def steps(self) -> AsyncGenerator[tuple[int, Step | None]]:
        """Of all of them, as they come, each with its number."""
        events: Events = asyncio.Queue()
        read = [asyncio.Event() for _ in self.firsts]
        tasks = [
            asyncio.create_task(self._pass_on(number, events, read[number // self.copies]))
            for number in range(len(self.replies))
        ]
        try:
            ended = 0
            while ended < len(tasks):
                event = await events.get()
                if isinstance(event, Exception):
                    raise event
                if event is None:
                    ended += 1
                else:
                    yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def whole(self) -> None:
        async with aclosing(self.steps()) as steps:
            async for _ in steps:
                pass

    async def _pass_on(self, number: int, events: Events, read: asyncio.Event) -> None:
        reply = self.replies[number]
        try:
            if number % self.copies:
                await read.wait()
                await reply.begin()
            async with aclosing(reply.steps()) as steps:
                async for step in steps:
                    events.put_nowait((number, step))
                    if step:
                        read.set()
            events.put_nowait(None)
        except Exception as error:
            events.put_nowait(error)


def sown(prepared: Prepared, copy: int) -> Prepared:
    """Each reply to a prompt has a seed of its own."""
    seed = prepared.settings.seed
    if seed is None or not copy:
        return prepared
    return replace(prepared, settings=replace(prepared.settings, seed=(seed + copy) % (1 << 64)))

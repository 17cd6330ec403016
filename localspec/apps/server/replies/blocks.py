"""A reply as a sequence of blocks: text, thought and calls."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal

from localspec.apps.server.replies.reply import Choices, Reply, Step
from localspec.core.sampling.logprobs import EmittedLogprob
from localspec.formats.dialects import Arguments, Call, Content, Reasoning

SEAL = "localspec:"  # before thoughts that a client passes back unread

Kind = Literal["text", "thought", "call"]
Status = Literal["in_progress", "completed", "incomplete"]


@dataclass(slots=True, eq=False)
class Block:
    index: int
    kind: Kind
    name: str = ""  # of the tool that is called
    text: str = ""  # of a call: its arguments
    status: Status = "in_progress"
    logprobs: list[EmittedLogprob] = field(default_factory=list)  # of a text
    id: str = field(default_factory=lambda: secrets.token_hex(12))


@dataclass(frozen=True, slots=True)
class Opened:
    block: Block


@dataclass(frozen=True, slots=True)
class Grown:
    block: Block
    text: str
    logprobs: list[EmittedLogprob]


@dataclass(frozen=True, slots=True)
class Closed:
    block: Block


Change = Opened | Grown | Closed


class Blocks:
    """The blocks of a reply, each closed before the next; an empty reply is one empty text."""

    def __init__(self, choices: Choices) -> None:
        self.all: list[Block] = []
        self._choices = choices
        self._logprobs: list[EmittedLogprob] = []  # of tokens that did not show in a text yet

    @property
    def reply(self) -> Reply:
        return self._choices.replies[0]

    async def read_all(self) -> None:
        async with aclosing(self._choices.steps()) as steps:
            async for batch in steps:
                for _, step in batch:
                    for _ in self.changes(step) if step else ():
                        pass
        for _ in self.end():
            pass

    def changes(self, step: Step) -> Iterator[Change]:
        """Yield the changes of a step."""
        self._logprobs += step.chunk.logprobs if step.chunk else ()
        for part in step.parts:
            match part:
                case Content(text):
                    yield from self._add_text("text", text)
                case Reasoning(text):
                    yield from self._add_text("thought", text)
                case Call(_, name):
                    yield from self._open("call", name)
                case Arguments(_, text):
                    yield self._grow(text)
        if self.all and self.all[-1].kind != "text":
            self._logprobs = []

    def _add_text(self, kind: Kind, text: str) -> Iterator[Change]:
        if not self.all or self.all[-1].kind != kind:
            yield from self._open(kind)
        yield self._grow(text)

    def _open(self, kind: Kind, name: str = "") -> Iterator[Change]:
        if self.all:
            yield self._close("completed")
        self.all.append(Block(len(self.all), kind, name))
        yield Opened(self.all[-1])

    def _grow(self, text: str) -> Change:
        block, shown = self.all[-1], self._logprobs
        self._logprobs = []
        block.text += text
        block.logprobs += shown if block.kind == "text" else ()
        return Grown(block, text, shown)

    def end(self) -> Iterator[Change]:
        """Yield the changes once all steps were taken."""
        if not self.all:
            yield from self._open("text")
        yield self._close("incomplete" if self.reply.finish == "length" else "completed")

    def _close(self, status: Status) -> Change:
        self.all[-1].status = status
        return Closed(self.all[-1])

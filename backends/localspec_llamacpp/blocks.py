"""The ways that the layers of a drafting head read a text and draft, by the memory they have.

A head of one block goes on from hidden states of its own. Of blocks in a chain each drafts one
token: it reads again what was drafted so far, with the hidden states of the blocks before it. A
head that shares the trunk's keys and values has none of its own; it stays at one position.

    one     (xn, h) > d1   (d1, h') > d2           (d2, h") > d3
    chain   (xn, h) > d1   (xn, h) (d1, h1) > d2   (xn, h) (d1, h1) (d2, h2) > d3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import Logits, Tokens
from localspec_llamacpp.bindings.batch import Hidden, Part
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.bindings.memory import SequenceMemory

Data = NDArray[np.uint8]
NO_DATA = np.empty(0, np.uint8)
ENDLESS = 1 << 16  # tokens that one block can draft in a row


@dataclass(slots=True)
class DraftedText:
    """A text that is drafted on, from the first token that the head has not read."""

    slot: int
    start: int
    settled: int  # tokens before the newest; they are part of the text whatever is drafted
    tokens: Tokens
    states: Hidden  # before each of these tokens, and before the next
    steps: int = 0  # tokens that were drafted

    @property
    def whole(self) -> Part:
        return Part(self.slot, self.start, self.tokens, 1, self.states)

    @property
    def newest(self) -> Part:
        position = self.start + len(self.tokens) - 1
        return Part(self.slot, position, self.tokens[-1:], 1, self.states[-1:])

    @property
    def settled_part(self) -> Part:
        """The tokens that are part of the text; they draft nothing."""
        end = self.settled
        return Part(self.slot, self.start, self.tokens[:end], 0, self.states[:end])

    @property
    def drafted(self) -> Part:
        """The newest token of the text and those that were drafted."""
        end = self.settled
        return Part(self.slot, self.start + end, self.tokens[end:], 1, self.states[end:])


class NoMemory:
    """Keeps nothing, for layers that look into the trunk's memory."""

    def remove(self, sequence: int, start: int) -> bool:
        return True

    def clear(self, sequence: int) -> None:
        pass

    def copy(self, source: int, target: int, length: int) -> bool:
        return True

    def save(self, sequence: int, most: int) -> Data | None:
        return NO_DATA

    def restore(self, sequence: int, data: Data, length: int) -> bool:
        return not len(data)


HeadMemory = SequenceMemory | NoMemory  # the keys and values of a head, by slot


class Blocks(Protocol):
    """The layers of a head."""

    proposer: str  # the name by which they draft
    shift: int  # tokens of a text that have no entry in their memory
    lag: int  # how much older than its token the state of an entry is
    width: int  # numbers of a state of the trunk's, as they read it
    limit: int  # tokens that they can draft in a row
    widest: int  # tokens that a step reads of a text, beside what is settled
    memory: HeadMemory

    def read(self, parts: Sequence[Part]) -> None:
        """Read tokens of texts, with the trunk's states."""

    def step(self, texts: Sequence[DraftedText]) -> tuple[Logits, Hidden | None]:
        """Read what is new of texts with equally many drafted tokens; logits and state of each."""

    def finish(self, texts: Sequence[DraftedText]) -> None:
        """Leave all that is settled of these texts read; drafted tokens are removed afterwards."""


class OneBlock:
    """A block that reads each token once."""

    proposer, shift, lag = "mtp", 0, 1
    limit, widest = ENDLESS, 1

    def __init__(self, context: Context) -> None:
        self.width = context.hidden_width
        self.memory: HeadMemory = context.memory
        self._context = context

    def read(self, parts: Sequence[Part]) -> None:
        self._context.decode(parts)

    def step(self, texts: Sequence[DraftedText]) -> tuple[Logits, Hidden]:
        return run(self._context, [text.newest if text.steps else text.whole for text in texts])

    def finish(self, texts: Sequence[DraftedText]) -> None:
        pass


class Chain:
    """Blocks that draft a token each, with one memory: a cell has keys and values of all.

    llama.cpp gives a batch the same cells again if it begins like the one just removed, so the
    settled tokens of all texts come first, for every block.
    """

    proposer, shift, lag = "mtp", 0, 1

    def __init__(self, context: Context, count: int) -> None:
        self.width = context.hidden_width
        self.memory: HeadMemory = context.memory
        self.limit = self.widest = count
        self._context = context
        self._settled: list[Part] = []

    def read(self, parts: Sequence[Part]) -> None:
        for block in range(self.limit):
            self._run(block, parts)

    def step(self, texts: Sequence[DraftedText]) -> tuple[Logits, Hidden]:
        block = texts[0].steps
        if not block:
            self._settled = [text.settled_part for text in texts if text.settled]
        return self._run(block, [*self._settled, *(text.drafted for text in texts)])

    def finish(self, texts: Sequence[DraftedText]) -> None:
        settled, self._settled = self._settled, []
        for block in range(max(text.steps for text in texts), self.limit) if settled else ():
            self._run(block, settled)

    def _run(self, block: int, parts: Sequence[Part]) -> tuple[Logits, Hidden]:
        for part in parts:
            self._context.memory.remove(part.sequence, part.position)
        self._context.choose_block(block)
        return run(self._context, parts)


class Sharing:
    """Layers that look into the trunk's memory, so that there is nothing to read ahead."""

    proposer, shift, lag = "mtp", 0, 1
    limit, widest = ENDLESS, 1

    def __init__(self, context: Context, trunk: Context) -> None:
        self.width = context.hidden_width
        self.memory: HeadMemory = NoMemory()
        self._context = context
        context.memory.ids = trunk.memory.ids  # slots may change places in the trunk's memory
        context.tell_hidden(outputs_only=True)

    def read(self, parts: Sequence[Part]) -> None:
        pass

    def step(self, texts: Sequence[DraftedText]) -> tuple[Logits, Hidden]:
        return run(
            self._context,
            [text.newest._replace(position=text.start + text.settled) for text in texts],
        )

    def finish(self, texts: Sequence[DraftedText]) -> None:
        pass


def run(context: Context, parts: Sequence[Part]) -> tuple[Logits, Hidden]:
    """Run a batch; return logits and states of the last tokens of those parts that want them."""
    return context.decode(parts), context.hidden_of_outputs(parts)


def cuts_hidden(context: Context) -> bool:
    """Find out whether a head computes hidden states for outputs alone, by the first two tokens.

    Some graphs of llama.cpp do. Of the others it would return those of the first rows, so that all
    must be asked for; those that do have no others.
    """
    tokens, states = np.arange(2, dtype=np.int32), np.zeros((2, context.hidden_width), np.float32)
    context.tell_hidden(outputs_only=True)
    pieces = [Part(0, at, tokens[at : at + 1], 1, states[:1]) for at in range(2)]
    first, second = (run(context, [piece])[1].copy() for piece in pieces)
    context.memory.clear(0)
    _, last = run(context, [Part(0, 0, tokens, 1, states)])
    cut = bool(np.abs(last - second).sum() < np.abs(last - first).sum())
    context.memory.clear(0)
    return cut

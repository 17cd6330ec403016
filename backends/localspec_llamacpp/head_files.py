"""Heads in files of their own that read several layers of their target: EAGLE-3 and DFlash.

    EAGLE-3   (x1, g0) (x2, g1) ... (xn, g(n-1)) > d1   (d1, g') > d2
    DFlash    f0 f1 ... f(n-1)   xn ? ? ?               > d1 d2 d3

EAGLE-3 encodes the states into one, g, and then goes on from states of its own. DFlash takes the
states in as keys and values, and fills a block of masks in one pass; DFlash 2 gives candidates for
each token, scored after each candidate before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.base.tokens import Logits, tokens_of
from localspec_llamacpp.bindings.batch import Hidden, Part
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.blocks import ENDLESS, DraftedText, HeadMemory, run

NEVER = -1e20  # the logit of a token that a head cannot draft; not -inf, as a grammar may want it


@dataclass(frozen=True, slots=True)
class Block:
    """The tokens that DFlash fills in one pass: the newest of a text, and masks after it."""

    tokens: int
    first: int  # the first of them that drafts
    mask: int
    causal: bool
    candidates: int = 0  # for each token, among which DFlash 2 chooses


class Eagle3:
    """A layer that reads a token and the encoded states before it."""

    proposer, shift, lag = "eagle3", 1, 1
    limit, widest = ENDLESS, 1

    def __init__(self, context: Context, width: int) -> None:
        self.width = width
        self.memory: HeadMemory = context.memory
        self._context = context
        context.tell_hidden()

    def read(self, parts: Sequence[Part]) -> None:
        self._context.decode(self._encoded(parts))

    def step(self, texts: Sequence[DraftedText]) -> tuple[Logits, Hidden]:
        if not texts[0].steps:
            self._settle(texts)
        logits, states = run(self._context, [text.newest for text in texts])
        return np.maximum(logits, NEVER), states

    def _settle(self, texts: Sequence[DraftedText]) -> None:
        """Read what is settled; from here on the states are of its own kind."""
        if settled := [text.settled_part for text in texts if text.settled]:
            self.read(settled)
        last = self._context.encode(np.concatenate([text.states[-1:] for text in texts]))
        for at, text in enumerate(texts):
            text.states = last[at : at + 1]

    def _encoded(self, parts: Sequence[Part]) -> list[Part]:
        states = self._context.encode(np.concatenate([part.hidden for part in parts]))
        ends = np.cumsum([len(part.tokens) for part in parts])
        return [
            part._replace(hidden=states[end - len(part.tokens) : end])
            for part, end in zip(parts, ends, strict=True)
        ]

    def finish(self, texts: Sequence[DraftedText]) -> None:
        pass


class DFlash:
    """Layers that fill a block of masks after the newest token."""

    proposer, shift, lag = "dflash", 0, 0

    def __init__(self, context: Context, width: int, block: Block, vocabulary: int) -> None:
        self.width, self.limit, self.widest = width, block.tokens - block.first, block.tokens
        self.memory: HeadMemory = context.memory
        self._context, self._block = context, block
        self._masks = tokens_of([block.mask] * (block.tokens - 1))
        self._filled: dict[int, Logits] = {}  # rows of logits or of candidates, by slot
        self._vocabulary = vocabulary
        if block.candidates:
            context.tell_hidden()
        if not block.causal:
            context.attend_both_ways()

    def read(self, parts: Sequence[Part]) -> None:
        self._context.take_in(parts)

    def step(self, texts: Sequence[DraftedText]) -> tuple[Logits, None]:
        if not texts[0].steps:
            self._fill(texts)
        if self._block.candidates:
            return np.stack([self._selected(text) for text in texts]), None
        rows = [self._filled[text.slot][text.steps] for text in texts]
        return np.maximum(rows, NEVER), None

    def _selected(self, text: DraftedText) -> Logits:
        """Score the candidates after the token that was chosen before them."""
        most, rows = self._block.candidates, self._filled[text.slot]
        row, before = rows[text.steps], 0
        if text.steps:
            chosen = rows[text.steps - 1][:most] == text.tokens[-1]
            before = int(chosen.argmax())  # the likeliest if another was chosen
        logits = np.full(self._vocabulary, NEVER, np.float32)
        logits[row[:most].astype(np.int64)] = row[most:][: most * most].reshape(most, most)[before]
        return logits

    def _fill(self, texts: Sequence[DraftedText]) -> None:
        if settled := [text.settled_part for text in texts if text.settled]:
            self.read(settled)
        size = self._block.tokens
        logits = self._context.decode([self._masked(text) for text in texts])
        if self._block.candidates:
            logits = self._context.hidden(len(texts) * size)
        rows = logits.reshape(len(texts), size, -1)[:, self._block.first :].copy()
        self._filled = {text.slot: rows[at] for at, text in enumerate(texts)}

    def _masked(self, text: DraftedText) -> Part:
        tokens = np.concatenate((text.tokens[-1:], self._masks))
        outputs = 0 if self._block.candidates else len(tokens)
        return Part(text.slot, text.start + text.settled, tokens, outputs)

    def finish(self, texts: Sequence[DraftedText]) -> None:
        self._filled = {}

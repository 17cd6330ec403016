"""Wraps a draft model with another vocabulary as a model of the target's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import ContextFull
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import LogitRows, Logits, Tokens, tokens_of
from localspec.core.pairing.vocabulary import Match
from localspec.interfaces.backend import Model, Roll, Row
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import WrappedModel, roll_by_forward

# The logit of a token that the draft model lacks: as good as -inf, but where a grammar leaves only
# such tokens, one of them is sampled.
NEVER = -1e20
# Tokens of the target that fit into the place of one of the draft model's, in most texts. Texts
# that take more are met by `ContextFull`.
FIT = 0.75


@dataclass(frozen=True, slots=True)
class Passage:
    """A row in the draft model's tokens, and the ends of the target's tokens in it."""

    row: Row
    ends: NDArray[np.int64]


class Translated(WrappedModel):
    """Implements `Model` in the target's tokens on a model that has others."""

    def __init__(self, model: Model, target: Tokenizer, match: Match, width: int) -> None:
        super().__init__(model)
        self.tokenizer, self.vocabulary, self.context = target, width, int(FIT * model.context)
        self.head = self.sight = None  # a head would draft the draft model's tokens
        self._match = match
        self._words: dict[int, Tokens] = {
            token: tokens_of([draft])
            for token, draft in zip(
                match.target_ids.tolist(), match.draft_ids.tolist(), strict=True
            )
        }
        # ends[slot][i]: tokens of the draft model that the first i + 1 of the target's take
        self._ends = [np.empty(0, np.int64) for _ in range(model.slots)]

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        passages = [self._passage(row) for row in rows]
        logits = self._model.forward(self._feed_ahead([p.row for p in passages]))
        for passage in passages:
            slot = passage.row.slot
            start = self._ends[slot][-1] if len(self._ends[slot]) else 0
            self._ends[slot] = np.concatenate((self._ends[slot], start + passage.ends))
        triples = zip(rows, passages, logits, strict=True)
        return [self._target_logits(*triple) for triple in triples]

    def truncate(self, slot: int, length: int) -> int:
        ends = self._ends[slot]
        length = min(length, len(ends))
        left = self._model.truncate(slot, int(ends[length - 1]) if length else 0)
        remaining = int(ends.searchsorted(left, side="right"))
        whole = int(ends[remaining - 1]) if remaining else 0
        if left != whole:  # a checkpoint in the middle of one of the target's tokens
            self._model.truncate(slot, 0)
            remaining = 0
        self._ends[slot] = ends[:remaining]
        return remaining

    def copy(self, source: int, target: int, length: int) -> int:
        ends = self._ends[source][:length]
        if not self._model.copy(source, target, int(ends[-1]) if length else 0):
            self._ends[target] = ends[:0]
            return 0
        self._ends[target] = ends
        return length

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        return roll_by_forward(self, rolls)

    def _passage(self, row: Row) -> Passage:
        words = [self._word(token) for token in row.tokens.tolist()]
        sizes = np.array([len(word) for word in words], np.int64)
        ends = sizes.cumsum()
        held = int(self._ends[row.slot][-1]) if len(self._ends[row.slot]) else 0
        if held + int(ends[-1]) > self._model.context:
            raise ContextFull(row.slot, self._model.context)
        outputs = int(sizes[len(sizes) - row.outputs + 1 :].sum()) + 1 if row.outputs else 0
        tentative = int(sizes[len(sizes) - row.tentative :].sum())
        return Passage(Row(row.slot, np.concatenate(words), outputs, tentative), ends)

    def _feed_ahead(self, rows: Sequence[Row]) -> list[Row]:
        """Feed the tokens beyond one forward; return the rest of each row."""
        share = max(self.batch // len(rows), 1)
        return [self._shorten(row, share) for row in rows]

    def _shorten(self, row: Row, share: int) -> Row:
        tokens = row.tokens
        while len(tokens) > max(share, row.outputs):
            self._model.forward([Row(row.slot, tokens[:share], outputs=0)])
            tokens = tokens[share:]
        return Row(row.slot, tokens, row.outputs, row.tentative)

    def _target_logits(self, row: Row, passage: Passage, logits: LogitRows) -> Logits:
        """Pick the logits at the ends of the target's tokens, over the target's ids."""
        places = passage.ends[len(passage.ends) - row.outputs :] - passage.ends[-1] - 1
        out = np.full((row.outputs, self.vocabulary), NEVER, np.float32)
        for target_row, at in zip(out, places.tolist(), strict=True):
            target_row[self._match.target_ids] = logits[at][self._match.draft_ids]
        return out

    def _word(self, token: int) -> Tokens:
        """Return the draft model's tokens for one of the target's."""
        word = self._words.get(token)
        if word is None:
            text = self.tokenizer.token_bytes(token).decode("utf-8", "replace")
            word = self._model.tokenizer.encode(text or self.tokenizer.token_text(token))
            # Any token will do for one without text: only the acceptance rate depends on it.
            word = self._words[token] = word if len(word) else tokens_of([0])
        return word

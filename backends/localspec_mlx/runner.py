"""Rows of tokens through a model, in as few runs as they need; nothing waits here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np

from localspec.base.errors import BackendError
from localspec.base.tokens import Tokens
from localspec.interfaces.backend import Row
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.call import BothWays
from localspec_mlx.heads.tap import Tap
from localspec_mlx.slots import CacheSlots

# The most tokens with which a row runs beside narrower ones. What a longer row has before the
# tokens whose logits are wanted is read by itself: padding the others to its width would cost more,
# and its logits are never worked out. A recurrent slot gets a new mark that way, too.
WIDE = 16


class Runner:
    def __init__(
        self, blueprint: Blueprint, slots: int, vocabulary: int, tap: Tap | None = None
    ) -> None:
        self.slots = CacheSlots(blueprint, slots)
        self._tap = tap
        self._states: dict[int, list[mx.array]] = {}
        self._sharing = blueprint.sharing
        self._vocabulary = vocabulary

    def run(self, rows: Sequence[Row]) -> mx.array:
        """Append rows; return the wanted logits of all in 32 bits, [outputs, vocabulary]."""
        return joined(self.run_rows(rows))

    def run_rows(self, rows: Sequence[Row]) -> list[mx.array]:
        """Append rows; return the wanted logits of each, [outputs, vocabulary]."""
        for row in rows:
            if first := lead(row):
                self._feed([row.slot], padded([row.tokens[:first]], self._vocabulary), [first])
                self.slots.anchor(row.slot)
        following = [row._replace(tokens=row.tokens[lead(row) :]) for row in rows]
        following = [row for row in following if len(row.tokens)]
        self.slots.mark([row.slot for row in following if row.tentative])
        groups = self._groups(following)
        at = [row.slot for row in following]
        logits_of = {slot: row for group in groups for slot, row in self._run_group(group, at)}
        if len(self.slots.groups(at)) < len(groups):
            # What is still being read would be copied before the next run writes beside it.
            for group in groups[:-1]:
                mx.eval([logits_of[row.slot] for row in group])
        none = mx.zeros((0, self._vocabulary))
        return [logits_of.get(row.slot, none) for row in rows]

    def _groups(self, rows: Sequence[Row]) -> list[list[Row]]:
        """Group the rows that may share a run, and whose padding costs less than another run."""
        kinds: dict[int, list[Row]] = {}
        for row in rows:
            kinds.setdefault(self._kind(row), []).append(row)
        return [group for kind in kinds.values() for group in of_similar_widths(kind)]

    def _kind(self, row: Row) -> int:
        return {"ragged": 0, "even": len(row.tokens), "alone": row.slot}[self._sharing]

    def _run_group(
        self, rows: Sequence[Row], beside: Sequence[int]
    ) -> Iterator[tuple[int, mx.array]]:
        """Run one group; return the wanted logits of each slot."""
        widths = [len(row.tokens) for row in rows]
        tokens = padded([row.tokens for row in rows], self._vocabulary)
        logits = self._feed([row.slot for row in rows], tokens, widths, beside)
        for at, (row, end) in enumerate(zip(rows, widths, strict=True)):
            yield row.slot, logits[at, end - row.outputs : end]

    def step(self, at: Sequence[int], tokens: mx.array) -> mx.array:
        """Feed each slot a token that may not be known yet; return logits [slots, vocabulary]."""
        if self._sharing != "alone" or len(at) == 1:
            logits = self._feed(at, tokens[:, None], [1] * len(at))[:, -1]
        else:
            pairs = zip(at, tokens, strict=True)
            runs = [self._feed([slot], token.reshape(1, 1), [1]) for slot, token in pairs]
            logits = mx.concatenate(runs)[:, -1]
        return logits.astype(mx.float32)

    def _feed(
        self,
        slots: Sequence[int],
        tokens: mx.array,
        widths: Sequence[int],
        beside: Sequence[int] = (),
    ) -> mx.array:
        """Run the model; keep the states that a head reads."""
        logits = self.slots.run(slots, tokens, widths, beside)
        self._keep_states(slots, widths)
        return logits

    def read_picture(self, row: Row, embeddings: mx.array, both_ways: BothWays) -> mx.array:
        """Append positions of a picture; return the wanted logits."""
        self.slots.mark([row.slot] if row.tentative else [])
        logits = self.slots.read_picture(row.slot, embeddings, both_ways)
        self._keep_states([row.slot], [len(embeddings)])
        if not row.outputs:  # a part of nothing would have all of them computed
            return mx.zeros((0, self._vocabulary))
        return logits[0, len(embeddings) - row.outputs :]

    def _keep_states(self, slots: Sequence[int], widths: Sequence[int]) -> None:
        if self._tap:
            states = self._tap.take_states()
            for at, (slot, width) in enumerate(zip(slots, widths, strict=True)):
                self._states.setdefault(slot, []).append(states[at, :width])

    def states(self) -> dict[int, mx.array]:
        """Hand over the states at each token since they were last asked for, by slot."""
        states, self._states = self._states, {}
        return {slot: mx.concatenate(parts) for slot, parts in states.items()}

    def tell_no_states(self) -> None:
        """Keep no states from now on: there is no head any more."""
        self._tap, self._states = None, {}


def padded(texts: Sequence[Tokens], vocabulary: int) -> mx.array:
    """Pad texts on the right to one array of tokens."""
    tokens = np.zeros((len(texts), max(map(len, texts))), np.int32)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = text
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise BackendError(f"a token is not within 0 to {vocabulary - 1:,}")
    return mx.array(tokens)


def of_similar_widths(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Divide rows, so that none is padded by more than `WIDE` tokens."""
    left = list(rows)
    while left:
        widest = max(len(row.tokens) for row in left)
        yield [row for row in left if len(row.tokens) >= widest - WIDE]
        left = [row for row in left if len(row.tokens) < widest - WIDE]


def joined(logits: Sequence[mx.array]) -> mx.array:
    """Join the logits of rows in 32 bits: [outputs of all, vocabulary]."""
    return mx.concatenate(list(logits)).astype(mx.float32)


def lead(row: Row) -> int:
    """Count the leading tokens of a row that are read by themselves."""
    tail = max(row.outputs, row.tentative + 1 if row.tentative else 0)
    return len(row.tokens) - tail if len(row.tokens) > WIDE else 0

"""The texts that a target holds, and how far its drafting head has read them.

An entry of a head's memory is made of a token and of the target's state `lag` tokens before it. The
first `shift` tokens of a text have no entry.

    target           x0 x1 x2 ... x(n-1)         with states h0 h1 h2 ... h(n-1)
    shift 0, lag 1   (x0, 0) (x1, h0) (x2, h1) ... (xn, h(n-1)) -> x(n+1)
    shift 1, lag 1           (x1, h0) (x2, h1) ... (xn, h(n-1)) -> x(n+1)
    shift 0, lag 0   (x0, h0) (x1, h1) ... (x(n-1), h(n-1)), xn -> x(n+1)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from localspec.base.tokens import NONE, Tokens, common_prefix
from localspec.interfaces.backend import MAX_HEAD_LAG, Roll, Row
from localspec.interfaces.draft import Draft

LOG = logging.getLogger("localspec")
Array = TypeVar("Array")


class StateRows(Protocol[Array]):
    """The states of some tokens in a row, in an engine's own arrays; at first there are none."""

    def append(self, states: Array, start: int) -> None:
        """Add the states from `start` on; from -1 on: zeros for the token before them, and all."""

    def first(self, count: int) -> Array:
        """Return the first `count`, or as many as there are."""

    def drop(self, count: int) -> None:
        """Forget the first `count`."""

    def keep(self, count: int) -> None:
        """Forget all but the first `count`."""

    def copied(self) -> StateRows[Array]: ...


class TextProgress(Generic[Array]):
    """One text that the target holds, the entries that were read, and the states for the others."""

    def __init__(self, shift: int, lag: int, new_rows: Callable[[], StateRows[Array]]) -> None:
        self._shift, self._lag, self._new_rows = shift, lag, new_rows
        self.tokens: Tokens = NONE
        self.anchors: dict[int, Array] = {}  # the last states of some shorter texts, by length
        self._restart(0)

    def _restart(self, entries: int) -> None:
        """Go on after `entries` entries, with the state for the next one if that was kept."""
        self.read = entries
        self.lost = False  # the target holds another text than this: nothing can be drafted
        self.states = self._new_rows()  # for the entries that are not read yet, and the next one
        anchor = self.anchors.get(entries + self._shift) if self._lag else None
        self._missing = anchor is None  # the first of these states
        if anchor is not None:
            self.states.append(anchor, 0)

    @property
    def behind(self) -> int:
        """The entries that could be read; -1 where the text has no token for the first."""
        return 0 if self.lost else len(self.tokens) - self._shift - self.read

    def unread(self, count: int | None = None) -> tuple[Tokens, Array]:
        """Return the next `count` tokens to read and their states; None: all, and the last state.

        Beyond what can be read there may be one more state: that for the newest token.
        """
        tokens = self.tokens[self.read + self._shift :]
        if count is None:
            return tokens, self.states.first(len(tokens) + self._lag)
        return tokens[:count], self.states.first(count)

    def append(self, tokens: Tokens, position: int, states: Array) -> None:
        """Take in tokens that the target read from a position on, some of them again."""
        if self.lost:
            return
        same = common_prefix(self.tokens[position:], tokens)
        if same < min(len(self.tokens) - position, len(tokens)):
            self.truncate(position + same)
        start = same
        if self._missing:  # -1: the target did not read that token again, as `enough` asked for
            start = max(self.read + self._shift - self._lag - position, -1)
        if start < len(tokens):
            self.states.append(states, start)
            self._missing = False
        if same < len(tokens):
            self.tokens = np.concatenate((self.tokens, tokens[same:]))

    def advance(self, count: int) -> None:
        """Count `count` more entries as read."""
        self.read += count
        self.states.drop(count)

    def follows(self, length: int) -> bool:
        """Return whether the text has `length` tokens, and the state for its next entry."""
        able = not self.lost and not (self._lag and self._missing)
        return able and len(self.tokens) == length and self.behind >= 0

    def enough(self, length: int) -> int:
        """Choose how many of `length` tokens the target shall keep.

        The state for an entry is gone once that was read: the target reads its token again, unless
        the state was kept.
        """
        gone = self._lag and length - self._shift < self.read and length not in self.anchors
        return length - 1 if gone else length

    def truncate(self, length: int) -> None:
        """Hold no more than `length` tokens; the target may hold fewer, and read the rest again."""
        entries = max(length - self._shift, 0)
        self.tokens = self.tokens[:length]
        self.anchors = {end: state for end, state in self.anchors.items() if end <= length}
        if entries < self.read or not length:
            self._restart(entries)
        else:
            self.states.keep(entries - self.read + self._lag)

    def leave(self) -> None:
        """Take in no more of the text, until it is truncated to less than what was read of it."""
        self.states, self.anchors, self.lost = self._new_rows(), {}, True

    def give_up(self) -> None:
        """Take in no more of the text at all: the head's memory of it is gone."""
        self.tokens, self.read = NONE, 0
        self.leave()

    def copied(self) -> TextProgress[Array]:
        twin = copy(self)
        twin.states, twin.anchors = self.states.copied(), dict(self.anchors)
        return twin

    def resume(self, tokens: Tokens, states: Array, count: int) -> None:
        """Become a text that was saved with `count` states."""
        self.tokens = tokens
        self._restart(len(tokens) - self._shift + self._lag - count)
        self.states.append(states, 0)
        self._missing = False


class HeadProgress(Generic[Array]):
    """The text in each slot of a target, for its head."""

    def __init__(
        self, slots: int, shift: int, lag: int, new_rows: Callable[[], StateRows[Array]]
    ) -> None:
        self.texts = [TextProgress(shift, lag, new_rows) for _ in range(slots)]

    def behind(self, slot: int) -> int | None:
        text = self.texts[slot]
        return None if text.lost else max(text.behind, 0)

    def late(self, rows: Sequence[Row]) -> dict[int, int]:
        """Choose slots to read now, with the tokens of each that the target may take back.

        Those are read once that is settled.
        """
        unsettled = {row.slot: len(row.tokens) if row.tentative else 0 for row in rows}
        return {s: n for s, n in unsettled.items() if self.texts[s].behind - n > MAX_HEAD_LAG}

    def portions(self, kept_back: Mapping[int, int], batch: int) -> Iterator[dict[int, int]]:
        """Share batches out to slots: count the entries of each to read now, and then as read.

        The last tokens of each are kept back, as many as are given.
        """
        share = max(batch // max(len(kept_back), 1), 1)
        while counts := {
            slot: min(self.texts[slot].behind - tokens, share)
            for slot, tokens in kept_back.items()
            if self.texts[slot].behind > tokens
        }:
            yield counts
            for slot, count in counts.items():
                self.texts[slot].advance(count)

    def able(self, rolls: Sequence[Roll], limit: int) -> list[Roll]:
        """Choose the texts that can be drafted for, each by up to `limit` tokens."""
        return [
            replace(roll, depth=min(roll.depth, limit))
            for roll in rolls
            if self.texts[roll.row.slot].follows(roll.start - 1)
        ]

    def give_up(self, slots: Iterable[int], error: Exception) -> None:
        """Draft no more for these texts: no request ends because of its head."""
        LOG.warning("the drafting head leaves a text: %s", error)
        for slot in slots:
            self.texts[slot].give_up()


def drafts_of(rolls: Sequence[Roll], drafts: Mapping[int, Draft], by: str) -> list[Draft]:
    """Return the draft for each roll; those without one get an empty draft."""
    return [drafts.get(roll.row.slot, Draft(NONE, by)) for roll in rolls]

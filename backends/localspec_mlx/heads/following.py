"""The texts that a target holds, and how far its head has read them.

A head reads token p together with the target's state at p - 1, the state before it; of the first
token there is none, so it is left out. The newest token may be read by a head before its target.

    target   x0 x1 x2 ... x(n-1)       h0 h1 h2 ... h(n-1)
    head     (x1, h0) (x2, h1) ... (xn, h(n-1)) -> x(n+1)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import mlx.core as mx
import numpy as np

from localspec.backend import Row
from localspec.tokens import NONE, Tokens, common_prefix
from localspec_mlx.runner import lead
from localspec_mlx.slots import ANCHORS

FIRST = 1  # the first token that a head reads


@dataclass(slots=True)
class FollowedText:
    """The tokens that the target holds of one text, or will read again."""

    tokens: Tokens = field(default_factory=lambda: NONE)
    read: int = 0  # of these, by the head
    before: mx.array | None = None  # states before the tokens that are not read, and the next one
    ends: dict[int, mx.array] = field(default_factory=dict)  # states where long readings ended
    lost: bool = False  # it failed: nothing can be drafted
    stateless: bool = False  # states have no numbers: none is ever missing

    @property
    def behind(self) -> int:
        return len(self.tokens) - self.read

    @property
    def entries(self) -> int:
        """Count the keys that the head has kept."""
        return max(self.read - FIRST, 0)

    def unread(self, count: int) -> tuple[Tokens, mx.array]:
        """Return the next tokens, as many as are there, and the states before so many."""
        assert self.before is not None
        skipped = max(FIRST - self.read, 0)
        tokens = self.tokens[self.read + skipped : self.read + count]
        return tokens, self.before[skipped:count]

    def advance(self, count: int) -> None:
        assert self.before is not None
        self.read += count
        self.before = self.before[count:]

    def append(self, row: Row, position: int, states: mx.array) -> None:
        """Go on from a position, which may be an earlier one: some tokens are read twice."""
        known = common_prefix(self.tokens[position:], row.tokens)
        if known < min(len(self.tokens) - position, len(row.tokens)):
            self.truncate(position + known)
        if self.before is None and position < self.read <= position + len(row.tokens):
            self.before = states[self.read - 1 - position :][:1]
        if known < len(row.tokens):
            self.tokens = np.concatenate((self.tokens, row.tokens[known:]))
            self.before = joined(self.before, states[known:])
        if first := lead(row):
            # A copy: a part of an array keeps all of it.
            self.ends[position + first] = mx.take(states, mx.array([first - 1]), axis=0)
            self.ends = dict(sorted(self.ends.items())[-ANCHORS:])

    def enough(self, length: int) -> int:
        """Choose how many tokens the target shall keep of so many.

        The state at the last token that was read is gone once more was read: the target reads that
        token again, unless a long reading ended there.
        """
        return length if length >= self.read or self._state(length) is not None else length - 1

    def _state(self, length: int) -> mx.array | None:
        """Return the state at the last of so many tokens that were read, if it was kept."""
        return mx.zeros((1, 0)) if self.stateless else self.ends.get(length)

    def truncate(self, length: int) -> None:
        """Know no more than so many tokens; the target may hold fewer, and read the rest again."""
        if length >= self.read:
            self.before = None if self.before is None else self.before[: length - self.read + 1]
        else:
            self.read, self.before = length, self._state(length)
        self.tokens = self.tokens[:length]
        self.ends = {end: state for end, state in self.ends.items() if end <= length}

    def copied(self) -> FollowedText:
        return replace(self, ends=dict(self.ends))


def joined(before: mx.array | None, states: mx.array) -> mx.array:
    """Append states; of a text that begins, a state before its first token is made up."""
    return mx.concatenate([mx.zeros_like(states[:1]) if before is None else before, states])

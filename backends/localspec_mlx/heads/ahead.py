"""Drafts that are begun while the target still verifies the last ones, so that no device waits.

The device chooses the target's tokens as the core will: those that agree with the draft are
accepted, and the next one is the newest. The head reads on from there. Where the core, which
decides, chose otherwise, or asks for no draft, what was begun is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import mlx.core as mx

from localspec.base.tokens import Tokens
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.logit_shift import shift_of
from localspec_mlx.chain import LOOK, Step
from localspec_mlx.predict import Choice, predict


class Verified(NamedTuple):
    """A draft that the target verifies, and what the device finds."""

    roll: Roll
    drafted: Tokens
    choices: mx.array  # the target's token at each place of the draft, and the one after it
    rejected: mx.array  # how many drafted tokens are not accepted

    def choice(self, step: int) -> Choice:
        """Return how the next draft's tokens are chosen."""
        most = len(self.drafted)
        first = self.roll.start + 1 + step
        return Choice(self.roll.sampler, first, later=most - self.rejected, most=most)

    def agrees(self, accepted: int, newest: int, choices: Sequence[int]) -> bool:
        """Whether the core accepted as many tokens as the device, and chose the same next one."""
        right = 0
        for drafted, chosen in zip(self.drafted.tolist(), choices, strict=False):
            if drafted != chosen:
                break
            right += 1
        return right == accepted and choices[right] == newest


def verified(roll: Roll, drafted: Tokens, logits: mx.array) -> Verified:
    """Work out what becomes of a draft by the logits [drafted + 1, vocabulary] of its target."""
    places = range(roll.start, roll.start + len(drafted) + 1)
    choices = predict(logits, [Choice(roll.sampler, place) for place in places])
    right = choices[:-1] == mx.array(drafted)
    rejected = len(drafted) - mx.cumprod(right.astype(mx.int32)).sum()
    return Verified(roll, drafted, choices.astype(mx.int32), rejected)


@dataclass(slots=True)
class OwnStates:
    """The states that a head has made since it began to draft, by the length of what it held."""

    start: int
    states: list[mx.array]
    rejected: mx.array | None = None  # where the device alone knows what its target takes back


@dataclass(frozen=True, slots=True)
class Begun:
    """The next draft of a text, on the device: a column of a chain."""

    verified: Verified
    chain: Sequence[Step]
    column: int
    own: OwnStates


@dataclass(slots=True)
class Foresight:
    """The last draft of one text, and the next one if it was begun."""

    last: tuple[Roll, Tokens] | None = None
    begun: Begun | None = None
    judging: bool = False  # the target has just verified the last draft
    unused: bool = False  # when a draft was begun, none was asked for
    lengths: list[int] = field(default_factory=list)  # of the last two drafts

    @property
    def expected(self) -> int:
        """Return how many tokens the next draft will hardly fall short of."""
        return max(min([*self.lengths, LOOK]), 1)

    def drafted(self, roll: Roll, tokens: Tokens) -> None:
        """Note a draft, if the device knows what becomes of it.

        Where logits are changed by the text, the next draft waits until that is known.
        """
        certain = roll.sampler.is_foreseen and shift_of(roll.sampler) is None
        self.last = (roll, tokens) if certain and len(tokens) else None
        self.lengths = [*self.lengths[-1:], len(tokens)]

    def verifies(self, row: Row, logits: mx.array) -> Verified | None:
        """Return what is accepted of the last draft, if a row verifies it and another is likely."""
        last, self.last = self.last, None
        count = row.tentative
        if last is None or not count or row.outputs != count + 1 or len(row.tokens) <= count:
            return None
        roll, tokens = last
        expected = [*roll.row.tokens[-1:], *tokens[:count]]
        self.judging = row.tokens[-count - 1 :].tolist() == expected
        return verified(roll, tokens[:count], logits) if self.judging and not self.unused else None

    def asked(self) -> Begun | None:
        """Hand over what was begun, now that a draft is asked for."""
        self.unused = self.unused and not self.judging
        begun, self.begun = self.begun, None
        return begun

    def drop(self) -> None:
        """Forget what was begun, as the text goes on without it."""
        self.unused = self.unused or self.begun is not None
        self.begun, self.judging = None, False

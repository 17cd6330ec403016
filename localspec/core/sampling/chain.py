"""The samplers of one text, one after another in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from localspec.base.tokens import Logits, Tokens, best
from localspec.core.sampling import filters
from localspec.core.sampling.cuts import CUTS, Candidates
from localspec.core.sampling.dry import Dry, Spell
from localspec.core.sampling.parameters import Sampling
from localspec.core.sampling.penalties import Penalties
from localspec.core.sampling.steering import Course, steering_of
from localspec.interfaces.distribution import Distribution

Coin = Callable[[int], float]  # the random number of a position in the text


class Shift(Protocol):
    """A change of logits by the text before."""

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the reply."""

    def apply(self, logits: Logits, drafted: Sequence[int]) -> None:
        """Change the logits of the token after `drafted` in place."""


class Chain:
    """The samplers of one text: what they are set to, and what they know of it."""

    def __init__(self, sampling: Sampling, prompt: Tokens, spell: Spell, coin: Coin) -> None:
        self._sampling, self._steps, self._coin = sampling, sampling.steps, coin
        self._length = len(prompt)
        names = (*self._steps.shifts, *self._steps.cuts)
        self._shifts: dict[str, Shift] = {}
        self.penalties = Penalties(sampling, prompt) if "penalties" in names else None
        if self.penalties:
            self._shifts["penalties"] = self.penalties
        if "dry" in names:
            self._shifts["dry"] = Dry(sampling, prompt, spell)
        self._leading = [self._shifts[name] for name in self._steps.shifts]
        steering = None if self._steps.simple else steering_of(sampling)
        self.course = Course(steering) if steering else None

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the reply."""
        self._length += len(tokens)
        for shift in self._shifts.values():
            shift.emit(tokens)
        if self.course:
            self.course.emit(tokens)

    def shift(self, row: Logits, drafted: Sequence[int]) -> None:
        """Change a row of logits by the samplers that come before those that leave tokens out."""
        for shift in self._leading:
            shift.apply(row, drafted)

    def distribution(self, row: Logits, drafted: Sequence[int], *, judges: bool) -> Distribution:
        """Return the distribution that follows from a row of shifted logits.

        The target's `judges` a draft, after each of its tokens in turn; any other is drafted from.
        """
        if self._steps.simple:
            return filters.distribution(self._sampling, row)
        best(row)  # which refuses what is no number
        candidates = self._cut(row, drafted)
        if self.course is None:
            return candidates.distribution
        return self.course.choose(candidates, drafted) if judges else self.course.guess(candidates)

    def _cut(self, row: Logits, drafted: Sequence[int]) -> Candidates:
        candidates = Candidates.of(row)
        for name in self._steps.cuts:
            if name in self._shifts:
                candidates = shift_candidates(candidates, self._shifts[name], drafted, len(row))
            elif name in CUTS and (name != "xtc" or self._excludes(drafted)):
                candidates = CUTS[name](candidates, self._sampling)
        return candidates

    def _excludes(self, drafted: Sequence[int]) -> bool:
        """Whether XTC leaves tokens out after `drafted`: how a position's coin falls is settled."""
        return self._coin(self._length + len(drafted)) < self._sampling.xtc_probability


def shift_candidates(
    candidates: Candidates, shift: Shift, drafted: Sequence[int], width: int
) -> Candidates:
    """Change the logits of the tokens that are left."""
    row = np.full(width, -np.inf, np.float32)
    row[candidates.ids] = candidates.logits
    shift.apply(row, drafted)
    return candidates._replace(logits=row[candidates.ids])

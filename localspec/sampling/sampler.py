"""Samples the tokens of one sequence: parameters, random numbers, grammar, penalties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.grammar.constraint import Constraint
from localspec.sampling.distribution import Distribution
from localspec.sampling.parameters import Sampling
from localspec.tokens import NONE, Logits, Tokens

# The uses of a random number. Every use at every position has its own, so that no choice disturbs
# another: a text does not depend on the draft length or the proposer.
TARGET, ACCEPT, DRAFT = range(3)
LANES = 3

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Dice:
    """Uniform random numbers without a state: splitmix64 of seed, position and lane."""

    seed: int

    def uniform(self, position: int, lane: int) -> float:
        counter = _mix(self.seed + _GAMMA) + (position * LANES + lane + 1) * _GAMMA
        return (_mix(counter) >> 11) * 2.0**-53


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class TokenCounts:
    """Counts of each token in a text that grows."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}
        self._ids = np.empty(64, np.int64)
        self._counts = np.zeros(64, np.int64)

    @property
    def ids(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self._ids[: len(self._at)]

    @property
    def counts(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self._counts[: len(self._at)]

    def count(self, token: int) -> int:
        at = self._at.get(token)
        return 0 if at is None else int(self._counts[at])

    def add(self, token: int) -> None:
        at = self._at.setdefault(token, len(self._at))
        if at == len(self._ids):
            self._ids = np.resize(self._ids, 2 * at)
            self._counts = np.concatenate((self._counts, np.zeros(at, np.int64)))
        self._ids[at] = token
        self._counts[at] += 1


class Sampler:
    """The parameters, random numbers and grammar of one sequence, and the tokens it has so far."""

    def __init__(
        self,
        sampling: Sampling,
        seed: int,
        prompt: Tokens,
        constraint: Constraint | None = None,
        *,
        shares_dice: bool = False,
    ) -> None:
        self.sampling = sampling
        self.dice = Dice(seed)
        self.constraint = constraint
        self._penalises = sampling.penalises
        self._shifts = sampling.penalises or bool(sampling.bias)
        self.adjusts = self._shifts or constraint is not None  # logits, before the distribution
        self.shares_dice = shares_dice  # whether drafts are sampled with the target's dice
        self._bias_ids = np.array(sorted(sampling.bias), np.int64)
        self._bias = np.array([sampling.bias[t] for t in sorted(sampling.bias)], np.float32)
        self._emitted = TokenCounts()
        self._prompt_ids = np.unique(prompt) if sampling.repetition != 1 else NONE

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the reply."""
        if self._penalises:
            for token in tokens:
                self._emitted.add(token)
        if self.constraint:
            self.constraint.emit(tokens)

    def over(self, drafted: Sequence[int]) -> bool:
        """Whether its grammar leaves nothing but the end after `drafted`."""
        return self.constraint is not None and self.constraint.over(drafted)

    def distribution(self, logits: Logits, drafted: Sequence[int] = ()) -> Distribution:
        """Return the distribution of the next token after `drafted`."""
        return self.distribution_of_masked(self.masked(logits, drafted), drafted)

    def masked(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Mask the logits: -inf for tokens that its grammar forbids after `drafted`."""
        return self.constraint.masked(logits, drafted) if self.constraint else logits

    def distribution_of_masked(self, logits: Logits, drafted: Sequence[int]) -> Distribution:
        """Return the distribution that follows from masked logits."""
        if self._shifts:
            logits = logits.copy()
            logits[self._bias_ids] += self._bias
        if self._penalises:
            self._penalise(logits, drafted)
        return self.sampling.distribution(logits)

    def _penalise(self, logits: Logits, drafted: Sequence[int]) -> None:
        ids, counts = self._emitted.ids, self._emitted.counts
        added = Counter(drafted)
        fresh = [token for token in added if not self._emitted.count(token)]
        ids = np.concatenate((ids, np.array(fresh, np.int64)))
        counts = np.concatenate((counts, np.zeros(len(fresh), np.int64)))
        for token, extra in added.items():
            counts[ids == token] += extra
        if self.sampling.repetition != 1:
            seen = np.union1d(ids, self._prompt_ids)
            old = logits[seen]
            by = self.sampling.repetition
            logits[seen] = np.where(old > 0, old / by, old * by)
        logits[ids] -= (self.sampling.presence + self.sampling.frequency * counts).astype(
            np.float32
        )

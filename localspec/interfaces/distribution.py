"""A probability distribution over few or many tokens; greedy is the one-token case."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localspec.interfaces.dice import Dice, Keys, mixed, wait, waits

MAX_SINGLE = 16  # tokens whose numbers take less time one by one
MAX_WHOLE = 4096  # tokens for each of which a logarithm is taken


@dataclass(frozen=True, slots=True)
class Distribution:
    """Tokens and their weights. These need not add up to one, because dividing all takes time."""

    ids: NDArray[np.int64]  # ascending
    weights: NDArray[np.floating]

    @staticmethod
    @lru_cache(maxsize=4096)  # greedy decoding makes one for every token
    def certain(token: int) -> Distribution:
        return Distribution(np.array((token,)), np.ones(1))

    @property
    def is_certain(self) -> bool:
        return len(self.ids) == 1

    @property
    def probs(self) -> NDArray[np.float64]:
        weights = self.weights.astype(np.float64)
        weights /= weights.sum()
        return weights

    def prob(self, token: int) -> float:
        at = int(self.ids.searchsorted(token))
        if at == len(self.ids) or self.ids[at] != token:
            return 0.0
        return float(self.weights[at] / self.weights.sum(dtype=np.float64))

    def draw(self, dice: Dice, position: int) -> int:
        """Draw a token for a position of a text: the one that waits the shortest for its weight.

        Each token waits for an exponential time, and so much shorter as it weighs more: the first
        is drawn by the weights. Two similar distributions mostly draw the same (the Gumbel-max
        coupling), whichever tokens are cut from either.
        """
        if self.is_certain:
            return int(self.ids[0])
        keys, ids = dice.keys(position), self.ids
        if len(ids) <= MAX_SINGLE:
            times = [
                (wait(keys, token) / weight, token)
                for token, weight in zip(ids.tolist(), self.weights.tolist(), strict=True)
                if weight
            ]
            return int(min(times)[1])
        weights = self.weights.astype(np.float64)
        if len(ids) > MAX_WHOLE:
            at = _earliest(keys, ids, weights)
            ids, weights = ids[at], weights[at]
        with np.errstate(divide="ignore"):  # what weighs nothing never comes
            return int(ids[(waits(keys, ids) / weights).argmin()])


def _earliest(
    keys: Keys, ids: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Find those of many tokens that may come first, by the upper halves of their numbers.

    A wait is at least as long as its number: a logarithm of each would take as long as a soft-max.
    """
    least = np.full(len(ids), np.inf)
    np.divide(mixed(ids, *keys[:2]), weights * 2.0**32, out=least, where=weights > 0)
    likely = int(least.argmin())
    time = wait(keys, int(ids[likely])) / weights[likely]
    return np.flatnonzero(least <= time)

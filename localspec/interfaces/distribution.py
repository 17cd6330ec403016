"""A probability distribution over few or many tokens; greedy is the one-token case."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

MAX_LISTED = 128  # tokens that lists take less time for than arrays, beside a model
BLOCK_SIZE = 1024  # tokens whose weights are added up before the one drawn is looked for


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

    def draw(self, uniform: float) -> int:
        """Return the token at this quantile, 0 <= uniform < 1."""
        if len(self.ids) <= MAX_LISTED:  # the same in lists
            totals = list(accumulate(self.weights.tolist()))
            last = bisect_left(totals, totals[-1])
            return int(self.ids.item(min(bisect_right(totals, uniform * totals[-1]), last)))
        if len(self.ids) <= BLOCK_SIZE:
            return int(self.ids[_quantile(self.weights, uniform)[0]])
        # First which block, then which of it: adding up everything in turn is slow.
        starts = np.arange(0, len(self.ids), BLOCK_SIZE)
        block, left = _quantile(np.add.reduceat(self.weights, starts), uniform)
        first = int(starts[block])
        at, _ = _quantile(self.weights[first : first + BLOCK_SIZE], left)
        return int(self.ids[first + at])

    def beyond(self, other: Distribution) -> Distribution:
        """Normalise the part of this distribution that exceeds `other`.

        Where rounding leaves nothing, the two are equal and this one is returned.
        """
        excess = self.probs
        at = self.ids.searchsorted(other.ids).clip(max=len(self.ids) - 1)
        shared = self.ids[at] == other.ids
        excess[at[shared]] -= other.probs[shared]
        keep = np.flatnonzero(excess > 0)
        if not len(keep):
            return self
        return Distribution(self.ids[keep], excess[keep])


def _quantile(weights: NDArray[np.floating], uniform: float) -> tuple[int, float]:
    """Find the index of a quantile, never of a zero; and its place within, from 0 to 1."""
    totals = weights.cumsum(dtype=np.float64)
    goal = uniform * totals[-1]
    last = int(totals.searchsorted(totals[-1]))
    at = min(int(totals.searchsorted(goal, side="right")), last)
    before = totals[at] - weights[at]
    return at, float(min(max((goal - before) / weights[at], 0.0), 1.0))

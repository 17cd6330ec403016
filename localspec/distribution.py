"""A probability distribution over few or many tokens; greedy is the one-token case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Distribution:
    ids: NDArray[np.int64]  # ascending
    probs: NDArray[np.float64]  # positive, sums to one

    @classmethod
    def certain(cls, token: int) -> Distribution:
        return cls(np.array((token,)), _ONE)

    @property
    def is_certain(self) -> bool:
        return len(self.ids) == 1

    def prob(self, token: int) -> float:
        at = int(self.ids.searchsorted(token))
        return float(self.probs[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    def draw(self, uniform: float) -> int:
        """The token at this quantile, 0 <= uniform < 1."""
        if self.is_certain:
            return int(self.ids[0])
        totals = self.probs.cumsum()
        at = int(totals.searchsorted(uniform * totals[-1], side="right"))
        return int(self.ids[min(at, len(self.ids) - 1)])

    def beyond(self, other: Distribution) -> Distribution:
        """What is left of this distribution where it exceeds `other`, normalised.

        Where rounding leaves nothing, the two are equal and this one is returned.
        """
        rest = self.probs.copy()
        at = self.ids.searchsorted(other.ids).clip(max=len(self.ids) - 1)
        shared = self.ids[at] == other.ids
        rest[at[shared]] -= other.probs[shared]
        keep = np.flatnonzero(rest > 0)
        if not len(keep):
            return self
        return Distribution(self.ids[keep], rest[keep] / rest[keep].sum())


_ONE = np.ones(1)

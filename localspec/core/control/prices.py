"""Prices of draft tokens: the tokens that the same time brought recently.

A round that brings `v` tokens in `t` seconds is worth v - rate * t tokens, where `rate` is what
seconds have brought recently. To maximise that worth round by round is to maximise tokens a second
in the long run, also where good rounds and bad ones alternate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from localspec.interfaces.costs import Batch, Costs

MARGIN = 0.03  # tokens that asking must promise beyond its price, after it did not pay
# Times plain decoding, that drafts must bring if all are right: no text is so throughout, and each
# try costs. Where five tokens at once take 2.7 rounds, a draft token may take a third of a round.
BEST_CASE = 1.2
LIKELY = 0.85  # the chance that a token of a newcomer is expected to have


class DraftPrices(NamedTuple):
    """Prices of a draft of 0, 1, ... tokens for one sequence."""

    drafting: Sequence[float]
    total: Sequence[float]  # to draft and verify them
    least: int = 0  # the shortest draft that beats plain decoding if all of it is right; 0: none

    @property
    def promise(self) -> float:
        """Return what the best draft of a newcomer is worth."""
        worths, alive, won = [0.0], 1.0, 0.0
        for price in self.total[1:]:
            alive *= LIKELY
            won += alive
            worths.append(won - price)
        return max(worths)


class Prices(NamedTuple):
    """Prices in one batch, at the recent speed."""

    costs: Costs
    batch: Batch
    gain: float  # the recent speed, plain decoding being 1

    @property
    def rate(self) -> float:
        """Return the tokens that a second brought recently."""
        return self.gain * self.batch.rows / self.costs.at(self.batch, self.batch.rows)

    def verifying(self, most: int) -> list[float]:
        """Return the prices of verifying 0, 1, ... draft tokens in a round.

        Tokens of prompts that are read beside them are worth as much as any: where a batch is so
        wide that each token takes its time, a wrong draft token holds a prompt up. A draft that
        begins a reply holds up nobody else, and the reply by no more than the round that it saves.
        """
        width = self.batch.rows + self.batch.beside
        seconds = self.costs.stretch(self.batch, width, width + most)
        rate = self.rate if self.batch.begins else self.gain * width / seconds[0]
        prices = [rate * (wide - seconds[0]) for wide in seconds]
        return prices[: bisect_right(prices, self.gain)] if self.batch.begins else prices

    def drafting(self, by: str, sharers: int, most: int) -> DraftPrices:
        """Return the prices of drafts by a proposer that drafts for several sequences at once."""
        curve, rate = self.costs.drafting(by, sharers), self.rate
        assert curve is not None
        drafting = [0.0, *[rate * seconds / sharers for seconds in curve.stretch(1, most)]]
        total = [a + b for a, b in zip(drafting, self.verifying(most), strict=True)]
        return DraftPrices(drafting, total, self._least(total))

    def _least(self, prices: Sequence[float]) -> int:
        """Return the shortest draft that pays if it is right; 0 if the best wins too little."""
        right = ((1 + length) / (1 + price / self.gain) for length, price in enumerate(prices))
        return break_even(prices, self.gain) if max(right) >= BEST_CASE else 0


def break_even(prices: Sequence[float], gain: float = 1.0) -> int:
    """Return the shortest draft that pays at prices without this gain, if right; 0: none does."""
    for length, price in enumerate(prices):
        if length > price / gain + MARGIN:
            return length
    return 0

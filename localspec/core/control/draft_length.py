"""The length of a draft: as many tokens as are worth more than their price. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from localspec.core.control.acceptance import FEW, Acceptance
from localspec.core.control.prices import MARGIN, DraftPrices
from localspec.interfaces.draft_stopping import Pays

COPYING = 2.5  # a higher recent gain is that of copies, by which other stretches are not priced
Survivals = Sequence[float]  # of each draft token: the chance that it and all before are right


def worthiest(survivals: Survivals, prices: Sequence[float]) -> tuple[int, float]:
    """Choose how many tokens of a draft to verify; return also their worth beyond the price.

    All lengths are compared, as a forward may take less for each token after a hump of the curve.
    """
    if len(survivals) > FEW:
        few = min(len(survivals), len(prices) - 1)
        worths = np.cumsum(survivals[:few]) - prices[1 : few + 1]
        at = int(worths.argmax()) if few else 0
        return (at + 1, float(worths[at])) if few and worths[at] > 0 else (0, 0.0)
    length, most, total = 0, 0.0, 0.0
    for at, (alive, price) in enumerate(zip(survivals, prices[1:], strict=False), start=1):
        total += alive
        if total - price > most:
            length, most = at, total - price
    return length, most


def at_own_rate(survivals: Survivals, prices: Sequence[float], gain: float) -> Sequence[float]:
    """Price seconds by what they bring in this stretch of a text, where copies brought far more.

    The stretch has to be passed before the next copy in any case: that seconds bring more there is
    no reason to draft less here.
    """
    if gain <= COPYING:
        return prices
    best = max(fastest(survivals, [price / gain for price in prices]), COPYING)
    return prices if best >= gain else [price * best / gain for price in prices]


def fastest(survivals: Survivals, times: Sequence[float]) -> float:
    """Return the speed of the fastest draft of one row, plain decoding being 1.

    `times` are those of 0, 1, ... draft tokens beside a plain round, in plain rounds.
    """
    tokens = accumulate(survivals, initial=1.0)
    return max(total / (1 + time) for total, time in zip(tokens, times, strict=False))


def worthiest_to_make(
    survivals: Survivals, rates: Sequence[float], prices: Sequence[float]
) -> tuple[int, float]:
    """Choose the length of a draft that is worth most, at least 1; return also its worth.

    `rates` are the chances of each token as long as it is not drafted.
    """
    alive, total, worths = 1.0, 0.0, []
    for at, rate in enumerate(rates):
        alive = survivals[at] if at < len(survivals) else alive * rate
        total += alive
        worths.append(total - prices[at + 1])
    worth = max(worths)
    return worths.index(worth) + 1, worth


def longest_affordable(prices: DraftPrices, most: int, max_risk: float) -> int:
    """Choose how many tokens to draft, so that all of them may be lost; 0: not even the least."""
    lengths = range(most, prices.least - 1, -1)
    return next((length for length in lengths if prices.total[length] <= max_risk), 0)


def draft_on(acceptance: Acceptance, prices: Sequence[float], limit: int) -> Pays:
    """Return the rule: draft on while a longer draft still pays, by the confidences so far."""
    rates = acceptance.ahead(limit)

    def pays(confidences: Sequence[float]) -> bool:
        drafted = len(confidences)
        _, survivals = acceptance.weigh(confidences)
        alive, won = survivals[-1], -MARGIN
        for at in range(drafted, len(rates)):
            alive *= rates[at]
            won += alive
            if won > prices[at + 1] - prices[drafted]:
                return True
        return False

    return pays


def trim(drafts: Sequence[Survivals], prices: Sequence[float]) -> list[int]:
    """Choose how many tokens of each draft to verify: the likeliest of all."""
    alive = np.array(list(chain.from_iterable(drafts)))
    likeliest = (-alive).argsort(kind="stable")
    won = np.zeros(len(alive) + 1)
    alive[likeliest].cumsum(out=won[1:])
    count = int((won[: len(prices)] - prices).argmax())
    rows = np.repeat(np.arange(len(drafts)), [len(draft) for draft in drafts])
    lengths: list[int] = np.bincount(rows[likeliest[:count]], minlength=len(drafts)).tolist()
    return lengths


def trim_evenly(drafts: Sequence[Survivals], prices: Sequence[float]) -> int:
    """Choose how many tokens to verify of each draft, equally many; prices are of all of them."""
    prices = prices[:: len(drafts)]
    alive = np.array([draft[: len(prices) - 1] for draft in drafts]).sum(axis=0)
    worth = np.append(0.0, np.cumsum(alive)) - prices
    return int(np.argmax(worth))

"""The price of a draft, and the length that it pays to draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.control.acceptance import Acceptance
from localspec.pays import Pays

ENTER = 0.03  # tokens that asking must promise, after it did not pay

Survivals = Sequence[float]  # of each draft token: the chance that it and all before are right


@dataclass(frozen=True, slots=True)
class Bill:
    """The price, in tokens, of a draft for one more sequence."""

    drafting: Sequence[float]  # 0, 1, ... tokens
    total: Sequence[float]  # to draft and verify them
    rate: float  # a second
    gain: float  # of late; prices are in tokens, which take less time by that

    def least(self, gain: float = 1.0) -> int:
        """Return the fewest draft tokens that would pay at a gain, were all right; 0: none."""
        for length, price in enumerate(self.total):
            if length > price * gain / self.gain + ENTER:
                return length
        return 0

    def best(self, survivals: Survivals, rates: Sequence[float]) -> tuple[int, float]:
        """Choose the length of a draft that is worth most, at least 1, and return that."""
        alive, won, found = 1.0, 0.0, []
        for at, rate in enumerate(rates):
            alive = survivals[at] if at < len(survivals) else alive * rate
            won += alive
            found.append(won - self.total[at + 1])
        worth = max(found)
        return found.index(worth) + 1, worth

    def affordable(self, wished: int, limit: int, prices: Sequence[float], purse: float) -> int:
        """Choose how many tokens to draft, so that the purse can lose all of them; 0: none."""
        least = self.least()
        for length in range(min(max(least, wished), limit), least - 1, -1):
            if least and prices[length] <= purse:
                return length
        return 0

    def stop(self, acceptance: Acceptance, limit: int) -> Pays:
        """Return the rule: draft on while a longer draft still pays, by the confidences so far."""
        prices = self.total
        rates = acceptance.ahead(limit)

        def pays(confidences: Sequence[float]) -> bool:
            made = len(confidences)
            _, survivals = acceptance.weigh(confidences)
            alive = survivals[-1]
            won = -ENTER
            for at in range(made, len(rates)):
                alive *= rates[at]
                won += alive
                if won > prices[at + 1] - prices[made]:
                    return True
            return False

        return pays

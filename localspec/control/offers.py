"""Drafts of several proposers for one round, of which the best is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.control.acceptance import Acceptance, Odds
from localspec.control.costs import Batch
from localspec.control.depth import Depth
from localspec.draft import Draft


@dataclass(slots=True)
class DraftOffer:
    """A draft, the chances of its tokens, and how much of it would pay."""

    by: str
    draft: Draft
    acceptance: Acceptance
    kinds: Sequence[Odds]
    survivals: Sequence[float]
    worth: float
    costly: bool = False  # its proposer takes time
    tries: bool = False  # it was made to learn whether its proposer pays
    pays: int = 0  # how many of its tokens it would pay to verify
    checked: int = 0  # how many of them were verified

    def judge(self, text: Sequence[int]) -> int:
        """Learn from how the text went on; return how many draft tokens were right."""
        # A sampled token that was not verified teaches nothing: the target may sample another.
        most = self.checked if self.draft.sources else len(self.kinds)
        judged = min(most, len(text))
        right = 0
        for drafted, token in zip(self.draft.tokens[:judged].tolist(), text, strict=False):
            if drafted != token:
                break
            right += 1
        self.acceptance.note(self.kinds, right, judged)
        if self.costly:
            self.acceptance.note_places(right, judged)
        return right


@dataclass(slots=True)
class Pass:
    """One round of asking: the batch, the price of each length, the best draft of each slot."""

    batch: Batch
    depth: Depth
    best: dict[int, DraftOffer] = field(default_factory=dict)
    _prices: Sequence[float] = ()
    _priced: int = 0  # draft tokens

    def prices(self, most: int) -> Sequence[float]:
        """Return the price of verifying 0, 1, ... draft tokens, as far as may be lost."""
        if most > self._priced:
            self._priced, self._prices = most, self.depth.affordable(self.batch, most)
        return self._prices

    def enter(self, slot: int, offer: DraftOffer) -> None:
        """Take an offer as the best of its slot if it is."""
        rival = self.best.get(slot)
        if offer.tries or offer.worth > (rival.worth if rival else 0.0):
            self.best[slot] = offer

    def worth(self, slot: int) -> float:
        """Return the worth of the best draft for a slot so far."""
        offer = self.best.get(slot)
        return offer.worth if offer else 0.0

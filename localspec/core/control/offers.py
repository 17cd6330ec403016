"""The drafts that are offered in one round, of which the best of each text is verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.core.control.acceptance import CAUTION, Acceptance, Odds
from localspec.core.control.depth import Depth
from localspec.core.control.draft_length import at_own_rate, worthiest
from localspec.interfaces.costs import Batch
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import Ask

UNSTATED = 0.5  # confidence in a token whose proposer states none


@dataclass(slots=True)
class DraftOffer:
    """A draft, the chances of its tokens, and how much of it would pay."""

    by: str
    draft: Draft
    acceptance: Acceptance
    kinds: Sequence[Odds]
    survivals: Sequence[float]
    worth: float
    pays: int = 0  # how many of its tokens it would pay to verify
    costly: bool = False  # its proposer takes time

    def cut(self) -> Draft:
        """Return the part of the draft that pays, which is now verified."""
        draft = self.draft
        if self.pays == len(draft.tokens):
            return draft
        return Draft(draft.tokens[: self.pays], draft.by, draft.confidences[: self.pays])

    def judge(self, text: Sequence[int]) -> int:
        """Learn from how the text went on; return how many draft tokens were right."""
        judged = min(len(self.kinds), len(text))
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
class Offers:
    """The offers of one round by slot, and the best one of each."""

    batch: Batch
    depth: Depth
    by_slot: dict[int, list[DraftOffer]] = field(default_factory=dict)
    _best: dict[int, DraftOffer] = field(default_factory=dict)
    _prices: Sequence[float] = ()
    _priced: int = 0  # draft tokens

    def add(self, by: str, ask: Ask, draft: Draft, *, costly: bool = False) -> DraftOffer:
        """Estimate how much of a draft pays; note it if it is the best of its text so far."""
        acceptance = self.depth.acceptance(by, ask)
        # The text also judges the unverified tokens of a draft that cost nothing.
        caution = 0.0 if costly else CAUTION
        stated = draft.confidences or (UNSTATED,) * len(draft)
        kinds, survivals = acceptance.weigh(stated, caution)
        prices = self.depth.affordable(self.batch, self._priced_to(len(kinds)), acceptance.streak)
        if self.batch.rows + self.batch.beside == 1:
            prices = at_own_rate(survivals, prices, self.depth.budget.gain)
        length, worth = worthiest(survivals, prices)
        offer = DraftOffer(by, draft, acceptance, kinds, survivals, worth, length, costly)
        self.by_slot.setdefault(ask.slot, []).append(offer)
        if worth > self.best_worth(ask.slot):
            self._best[ask.slot] = offer
        return offer

    def best_worth(self, slot: int) -> float:
        """Return the worth of the best draft for a slot so far."""
        return self._best[slot].worth if slot in self._best else 0.0

    def drafts(self) -> dict[int, Draft]:
        """Return the best draft of each slot, cut to what is to be verified."""
        best = self._best.values()
        if len(best) > 1 or (best and self.depth.even and self.batch.rows > 1):
            streak = sum(offer.acceptance.streak for offer in best)
            lengths = self.depth.trim(self.batch, [offer.survivals for offer in best], streak)
            for offer, length in zip(best, lengths, strict=True):
                offer.pays = length
        return {slot: offer.cut() for slot, offer in self._best.items() if offer.pays}

    def _priced_to(self, most: int) -> Sequence[float]:
        """Return the prices of verifying 0, 1, ... draft tokens."""
        if most > self._priced:
            self._priced, self._prices = most, self.depth.verifying(self.batch, most)
        return self._prices

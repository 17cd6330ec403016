"""Asks the proposers that pay, and verifies as much of the best draft as pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from localspec.control.acceptance import Acceptance, Odds
from localspec.control.depth import Depth, Seat, Wish
from localspec.draft import EMPTY, RESTING, Draft
from localspec.proposer import Ask, Proposer, RoundCost, notes_of

UNSTATED = 0.5  # confidence of a guess whose proposer tells none
IDLE = 16  # rounds without guesses after which another one is expected
LOOK = 8  # guesses by which to tell whether somebody could ever pay
STALE = 16  # rounds after which it is looked again who drafts for next to nothing


@dataclass(slots=True)
class DraftOffer:
    """A draft, and what is thought of it."""

    by: str
    draft: Draft
    acceptance: Acceptance
    kinds: Sequence[Odds]
    survivals: Sequence[float]
    worth: float
    dear: bool = False  # its proposer takes time
    tries: bool = False
    pays: int = 0  # how many of its guesses it would pay to check
    checked: int = 0

    def judge(self, said: Sequence[int]) -> int:
        """Learn from what the text went on with; how many guesses were right."""
        # An unchecked guess that was drawn tells nothing: the target may have drawn another.
        most = self.checked if self.draft.sources else len(self.draft)
        judged = min(most, len(said))
        right = 0
        for guess, token in zip(self.draft.tokens[:judged].tolist(), said, strict=False):
            if guess != token:
                break
            right += 1
        self.acceptance.note(self.kinds, right, judged)
        if self.dear:
            self.acceptance.note_places(right, judged)
        return right


class Best:
    """Always ask proposers that draft for next to nothing; ask the others if that promises to pay.

    The text judges every draft, verified or not, and so shows which would have paid.
    """

    def __init__(
        self,
        proposers: Mapping[str, Proposer],
        depth: Depth,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.depth = depth
        self._proposers = proposers
        self._notes = notes_of(proposers.values())
        self._clock = clock
        self._drafting = 0.0  # seconds of this round
        self._rounds = 0
        self._cheap: dict[int, set[str]] = {}  # who drafts for next to nothing, by rows
        self._idle: dict[int, int] = {}  # rounds since anything was checked, by slot
        self._offers: dict[int, tuple[int, list[DraftOffer]]] = {}  # by slot, from where on
        self._shown: dict[tuple[str, int], int] = {}  # how much of a text who has seen

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        reading = [ask for ask in asks if not ask.limit]
        wanting = [ask for ask in asks if ask.limit]
        for ask in wanting:
            self._judge(ask)
        if reading:
            for by in self._proposers:
                if not self.depth.hopeless(by, LOOK):
                    self._consult(by, [ask for ask in reading if ask.wants(by)])
        drafts = self._best(wanting) if wanting else {}
        return [drafts.get(ask.slot, EMPTY) for ask in asks]

    def release(self, slot: int) -> None:
        for proposer in self._proposers.values():
            proposer.release(slot)
        self.depth.release(slot)
        self._offers.pop(slot, None)
        self._idle.pop(slot, None)
        self._shown = {key: length for key, length in self._shown.items() if key[1] != slot}

    def note(self, cost: RoundCost) -> None:
        """Learn the cost of a round, and pass it on."""
        self.depth.note(cost, self._drafting)
        self._drafting = 0.0
        self._rounds += 1
        if self._rounds % STALE == 0:
            self._cheap.clear()
        for note in self._notes:
            note(cost)

    def _judge(self, ask: Ask) -> None:
        start, offers = self._offers.pop(ask.slot, (0, ()))
        said = ask.history[start:].tolist() if offers else []
        for offer in offers:
            right = offer.judge(said)
            if offer.dear:
                self._shown[offer.by, ask.slot] += right  # it has guessed them, so it knows them
                self.depth.judge(offer.by, ask.slot, right)

    def _best(self, asks: Sequence[Ask]) -> dict[int, Draft]:
        """The best draft for each slot, as far as it is to be checked."""
        rows = len(asks)
        prices = self.depth.prices(rows, max(ask.limit for ask in asks), asks[0].beside)
        looks = rows not in self._cheap
        if looks:
            self._cheap[rows] = {by for by in self._proposers if self.depth.is_cheap(by, rows)}
        cheap = self._cheap[rows]
        best: dict[int, DraftOffer] = {}
        generously = [ask.until(ask.limit, generous) for ask in asks]
        for by in self._proposers:
            if by in cheap and (eager := [ask for ask in generously if ask.wants(by)]):
                drafts, seconds = self._timed(by, eager)
                if looks:  # it is asked each round, so it has nothing to catch up on
                    self._note(by, drafts, seconds, missed=0)
                for ask, draft in zip(eager, drafts, strict=True):
                    if draft:
                        self._weigh(by, ask, draft, prices, best)
        for by in self._proposers:
            if by not in cheap and (able := [ask for ask in asks if ask.wants(by)]):
                self._ask_if_it_pays(by, able, prices, best)
        if len(best) > 1 or (best and rows > 1 and self.depth.even):
            self._trim(rows, best, asks[0].beside)
        return {ask.slot: self._kept(ask.slot, best.get(ask.slot)) for ask in asks}

    def _trim(self, rows: int, best: Mapping[int, DraftOffer], beside: int) -> None:
        """Drafts of several rows share a batch, and the price of its width."""
        offers = [offer for offer in best.values() if not offer.tries]
        if offers:
            lengths = self.depth.trim(rows, [offer.survivals for offer in offers], beside)
            for offer, length in zip(offers, lengths, strict=True):
                offer.pays = length

    def _ask_if_it_pays(
        self, by: str, asks: Sequence[Ask], prices: Sequence[float], best: dict[int, DraftOffer]
    ) -> None:
        seats = [self._seat(by, ask, best.get(ask.slot)) for ask in asks]
        wishes = self.depth.wish(by, len(asks), seats)
        wanted = [each for each in zip(seats, wishes, strict=True) if each[1].limit]
        drafts = self._consult(by, [seat.ask.until(wish.limit, wish.pays) for seat, wish in wanted])
        for (seat, wish), draft in zip(wanted, drafts, strict=True):
            worth = self._weigh(by, seat.ask, draft, prices, best, wish) if draft else 0.0
            self.depth.brought(by, seat.ask.slot, worth - wish.drafting[len(draft)])

    def _weigh(
        self,
        by: str,
        ask: Ask,
        draft: Draft,
        prices: Sequence[float],
        best: dict[int, DraftOffer],
        wish: Wish | None = None,
    ) -> float:
        """Keep a draft to learn from it, and as the best of its slot if it is; its worth."""
        acceptance = self._acceptance(by, ask)
        kinds, survivals = acceptance.weigh(draft.confidences or (UNSTATED,) * len(draft))
        length, worth = self.depth.worth(survivals, prices)
        offer = DraftOffer(by, draft, acceptance, kinds, survivals, worth, pays=length)
        if wish:
            offer.dear, offer.tries = True, wish.tries
            offer.pays = len(draft) if wish.tries else length
        known = self._offers.get(ask.slot)
        if known is None:
            self._offers[ask.slot] = (len(ask.history), [offer])
        else:
            known[1].append(offer)
        rival = best.get(ask.slot)
        if offer.tries or worth > (rival.worth if rival else 0.0):
            best[ask.slot] = offer
        return worth

    def _kept(self, slot: int, offer: DraftOffer | None) -> Draft:
        """Cut the draft to what pays; after a long time without any, expect none next time."""
        if offer and offer.pays:
            offer.checked = offer.pays
            self._idle[slot] = 0
            return cut(offer.draft, offer.checked)
        self._idle[slot] = self._idle.get(slot, 0) + 1
        return RESTING if self._idle[slot] > IDLE else EMPTY

    def _acceptance(self, by: str, ask: Ask) -> Acceptance:
        bound = ask.hints.forced is not None
        return self.depth.acceptances.of(by, ask.slot, ask.sampler, bound=bound)

    def _seat(self, by: str, ask: Ask, rival: DraftOffer | None) -> Seat:
        """Collect what is known of a proposer's drafts for one sequence."""
        worth = rival.worth if rival else 0.0
        return Seat(ask, self._acceptance(by, ask), self._missed(by, ask), worth)

    def _consult(self, by: str, asks: Sequence[Ask]) -> list[Draft]:
        """Ask a costly proposer, which first reads the tokens that it has not seen."""
        if not asks:
            return []
        missed = max(self._missed(by, ask) for ask in asks)
        drafts, seconds = self._timed(by, asks)
        self._note(by, drafts, seconds, missed)
        for ask in asks:
            self._shown[by, ask.slot] = len(ask.history)
        return drafts

    def _note(self, by: str, drafts: Sequence[Draft], seconds: float, missed: int) -> None:
        depth = max(map(len, drafts))
        self.depth.costs.note_drafting(by, len(drafts), depth, seconds, missed)

    def _timed(self, by: str, asks: Sequence[Ask]) -> tuple[list[Draft], float]:
        """Ask a proposer, and time it."""
        begun = self._clock()
        drafts = self._proposers[by].propose(asks)
        seconds = self._clock() - begun
        self._drafting += seconds
        return drafts, seconds

    def _missed(self, by: str, ask: Ask) -> int:
        """Tokens of a text that a proposer has not seen but for the newest."""
        return max(len(ask.history) - self._shown.get((by, ask.slot), 0) - 1, 0)


def generous(confidences: Sequence[float]) -> bool:
    """A guess that costs nothing pays until nobody would check it."""
    return confidences[-1] > 0.1


def cut(draft: Draft, length: int) -> Draft:
    """The beginning of a draft."""
    if length == len(draft):
        return draft
    sources = draft.sources and draft.sources[:length]
    return Draft(draft.tokens[:length], draft.by, sources, draft.confidences[:length])

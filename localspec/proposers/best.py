"""Ask whom it pays to ask, and keep of what they guess what it pays to check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from localspec.acceptance import Acceptance
from localspec.depth import Depth, Lap, Seat, Wish
from localspec.draft import EMPTY, RESTING, Draft
from localspec.proposer import Ask, Proposer

UNSTATED = 0.5  # confidence of a guess whose proposer tells none
IDLE = 16  # rounds without guesses after which another one is expected
LOOK = 8  # guesses by which to tell whether somebody could ever pay


@dataclass(slots=True)
class Offer:
    """A draft, and what is thought of it."""

    draft: Draft
    confidences: Sequence[float]
    acceptance: Acceptance
    survivals: Sequence[float]
    worth: float
    tries: bool
    checked: int = 0

    def beats(self, other: Offer | None) -> bool:
        return self.tries or self.worth > (other.worth if other else 0.0)

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
        self.acceptance.note(self.confidences, right, judged)
        return right


class Best:
    """Those who draft for next to nothing are always asked, the others if it promises to pay.

    The text judges every guess, checked or not, so that it shows who would have paid.
    """

    def __init__(
        self,
        proposers: Mapping[str, Proposer],
        depth: Depth,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.depth = depth
        self._proposers = proposers
        self._clock = clock
        self._drafting = 0.0  # seconds of this round
        self._idle: dict[int, int] = {}  # rounds since anything was checked, by slot
        self._offers: dict[int, tuple[int, dict[str, Offer]]] = {}  # by slot, from where on
        self._shown: dict[tuple[str, int], int] = {}  # how much of a text who has seen

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        reading = [ask for ask in asks if not ask.limit]
        wanting = [ask for ask in asks if ask.limit]
        for ask in wanting:
            self._judge(ask)
        for by in self._proposers:
            if reading and not self.depth.hopeless(by, LOOK):
                self._consult(by, reading)
        drafts = self._best(wanting) if wanting else {}
        return [drafts.get(ask.slot, EMPTY) for ask in asks]

    def release(self, slot: int) -> None:
        for proposer in self._proposers.values():
            proposer.release(slot)
        self.depth.release(slot)
        self._offers.pop(slot, None)
        self._idle.pop(slot, None)
        self._shown = {key: length for key, length in self._shown.items() if key[1] != slot}

    def note(self, lap: Lap) -> None:
        """Learn what a round took."""
        self.depth.note(lap, self._drafting)
        self._drafting = 0.0

    def _judge(self, ask: Ask) -> None:
        start, offers = self._offers.pop(ask.slot, (0, {}))
        said = ask.history[start:].tolist() if offers else []
        for by, offer in offers.items():
            right = offer.judge(said)
            self._shown[by, ask.slot] += right  # it has guessed them, so it knows them
            self.depth.judge(by, ask.slot, right)

    def _best(self, asks: Sequence[Ask]) -> dict[int, Draft]:
        """The best draft for each slot, as far as it is to be checked."""
        rows = len(asks)
        prices = self.depth.prices(rows, max(ask.limit for ask in asks))
        cheap = {by: self.depth.is_cheap(by, rows) for by in self._proposers}
        best: dict[int, Offer] = {}
        for by in sorted(cheap, key=lambda by: not cheap[by]):
            seats = [self._seat(by, ask, best.get(ask.slot)) for ask in asks]
            wishes = self.depth.wish(by, rows, seats, cheap=cheap[by])
            for ask, offer in self._hear(by, seats, wishes, prices):
                self._offers.setdefault(ask.slot, (len(ask.history), {}))[1][by] = offer
                if offer.beats(best.get(ask.slot)):
                    best[ask.slot] = offer
        offers = list(best.values())
        lengths = self.depth.trim(rows, [o.survivals for o in offers], [o.tries for o in offers])
        for offer, length in zip(offers, lengths, strict=True):
            offer.checked = length
        return {ask.slot: self._kept(ask.slot, best.get(ask.slot)) for ask in asks}

    def _kept(self, slot: int, offer: Offer | None) -> Draft:
        """What is to be checked; after long without anything, next time is likely the same."""
        if offer and offer.checked:
            self._idle[slot] = 0
            return cut(offer.draft, offer.checked)
        self._idle[slot] = self._idle.get(slot, 0) + 1
        return RESTING if self._idle[slot] > IDLE else EMPTY

    def _seat(self, by: str, ask: Ask, rival: Offer | None) -> Seat:
        """What is known of a proposer's guesses for one sequence."""
        bound = ask.hints.forced is not None
        acceptance = self.depth.acceptances.of(by, ask.slot, ask.sampler, bound=bound)
        return Seat(ask, acceptance, self._missed(by, ask), rival.worth if rival else 0.0)

    def _hear(
        self, by: str, seats: Sequence[Seat], wishes: Sequence[Wish], prices: Sequence[float]
    ) -> Iterator[tuple[Ask, Offer]]:
        """What a proposer offers those who are to ask it."""
        heard = [(seat, wish) for seat, wish in zip(seats, wishes, strict=True) if wish.limit]
        drafts = self._consult(by, [wish.of(seat.ask) for seat, wish in heard])
        for (seat, wish), draft in zip(heard, drafts, strict=True):
            confidences = draft.confidences or (UNSTATED,) * len(draft)
            survivals = seat.acceptance.survivals(confidences)
            _, worth = self.depth.worth(survivals, prices)
            seat.acceptance.note_length(len(draft), wish.limit)
            yield (
                seat.ask,
                Offer(draft, confidences, seat.acceptance, survivals, worth, wish.tries),
            )

    def _consult(self, by: str, asks: Sequence[Ask]) -> list[Draft]:
        """What a proposer answers; how long it takes is noted."""
        if not asks:
            return []
        begun = self._clock()
        drafts = self._proposers[by].propose(asks)
        seconds = self._clock() - begun
        self._drafting += seconds
        missed = max(self._missed(by, ask) for ask in asks)
        self.depth.costs.note_drafting(by, len(asks), max(map(len, drafts)), seconds, missed)
        for ask in asks:
            self._shown[by, ask.slot] = len(ask.history)
        return drafts

    def _missed(self, by: str, ask: Ask) -> int:
        """Tokens of a text that a proposer has not seen but for the newest."""
        return max(len(ask.history) - self._shown.get((by, ask.slot), 0) - 1, 0)


def cut(draft: Draft, length: int) -> Draft:
    """The beginning of a draft."""
    if length == len(draft):
        return draft
    sources = draft.sources and draft.sources[:length]
    return Draft(draft.tokens[:length], draft.by, sources, draft.confidences[:length])

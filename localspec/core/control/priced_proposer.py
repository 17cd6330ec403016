"""A proposer with what it has read of each text, which is asked for drafts where that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from localspec.core.control.acceptance import FEW
from localspec.core.control.depth import Candidate, Depth
from localspec.core.control.offers import Offers
from localspec.interfaces.backend import MAX_HEAD_LAG, Follower
from localspec.interfaces.costs import Batch
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import Ask, Proposer, QuietProposer, ReadingProposer

REACH = 16  # tokens of a draft that takes time, at most
# Tokens of a draft that takes next to no time: at first, and times the tokens in a row that were
# right before. Edits come unforeseen: to verify 512 tokens of which 40 are right costs a card as
# much as to verify 64 five times.
FIRST_REACH, GROWTH = 64, 2
# Chances below which such a draft ends: of its newest token, and of all tokens of a long one.
UNLIKELY, LOST = 0.1, 0.05
# Tokens that a head is behind, from which on it has to read them or leave the text.
DECIDING_LAG = MAX_HEAD_LAG - 16


class PricedProposer:
    """One proposer of an engine, and the seconds that it takes."""

    def __init__(
        self, by: str, proposer: Proposer, depth: Depth, clock: Callable[[], float]
    ) -> None:
        self.by = by
        self.quiet = proposer.quiet if isinstance(proposer, QuietProposer) else None
        self.head = proposer if isinstance(proposer, Follower) else None
        self.seconds = 0.0  # of drafting and reading in this round
        self._proposer, self._depth, self._clock = proposer, depth, clock
        self._reader = proposer if isinstance(proposer, ReadingProposer) else None
        self._read: dict[int, int] = {}  # tokens that a head has read of each text, by slot
        self._could_pay: bool | None = None  # None: to be computed again

    def read(self, asks: Sequence[Ask]) -> None:
        """Read prompts along, where that takes no time; a draft model reads them when it drafts.

        A head reads with the target. One that could never pay leaves the text instead.
        """
        if self._reader:
            return
        is_hopeless = self._depth.is_hopeless(self.by, REACH)
        if self.head and is_hopeless:
            for ask in asks:
                self.head.leave(ask.slot)
            return
        asks = [ask for ask in asks if ask.wants(self.by)]
        if asks and not self.head and not is_hopeless:
            self._proposer.propose(asks)

    def look_up(self, asks: Sequence[Ask], offers: Offers, *, learns: bool) -> None:
        """Offer drafts that cost next to nothing; learn the time that this took if `learns`."""
        eager = [ask.until(self._reach(ask), generous) for ask in asks if ask.wants(self.by)]
        if not eager:
            return
        start = self._clock()
        drafts = self._proposer.propose(eager)
        if learns:
            self._note(drafts, start)
        for ask, draft in zip(eager, drafts, strict=True):
            if len(draft.tokens):
                offers.add(self.by, ask, draft)

    def draft(self, asks: Sequence[Ask], offers: Offers) -> Sequence[int]:
        """Offer drafts that take time, where they promise to pay or are to show whether they do.

        Return the slots whose texts it goes on to read for that.
        """
        asks = [
            ask.until(min(ask.limit, REACH), ask.pays)
            for ask in asks
            if ask.wants(self.by) and self._follows(ask.slot)
        ]
        if not any(self.has_decision(ask.slot) and self.may_pay(ask.slot) for ask in asks):
            return ()
        start = self._clock()
        candidates = [self._candidate(ask, offers) for ask in asks]
        plans = self._depth.plan(self.by, offers.batch, candidates)
        planned = [(ask, plan) for ask, plan in zip(asks, plans, strict=True) if plan.limit]
        drafts = self._draft([ask.until(plan.limit, plan.pays) for ask, plan in planned], start)
        reading = [pair for pair in zip(candidates, plans, strict=True) if pair[1].piece]
        for candidate, plan in reading[:1]:  # one after the other, so that none waits for long
            self._read_on(candidate, plan.piece)
        pairs = zip(candidates, plans, strict=True)
        if self.head and (idle := [candidate for candidate, plan in pairs if not plan.limit]):
            self._keep_up(idle, offers.batch)
        for (ask, plan), draft in zip(planned, drafts, strict=True):
            survivals: Sequence[float] = ()
            worth = 0.0
            if draft:
                offer = offers.add(self.by, ask, draft, costly=True)
                survivals, worth = offer.survivals, offer.worth
            self._depth.record(self.by, ask.slot).note_worth(plan.value(survivals, worth))
        return [candidate.ask.slot for candidate, _ in reading]

    def note_right(self, slot: int, right: int) -> None:
        """Learn how many tokens of a draft were right: a head has read these."""
        if self.head:
            self._read[slot] += right
        self._depth.record(self.by, slot).note_right(right)

    def may_pay(self, slot: int) -> bool:
        """Whether its drafts could pay, or it is a head that still follows the text."""
        if self._could_pay is None:
            self._could_pay = not self._depth.is_hopeless(self.by, REACH)
        return self._could_pay or (self.head is not None and self._follows(slot))

    def has_decision(self, slot: int) -> bool:
        """Whether it is time to decide on its drafts for a text."""
        late = self.head is not None and (self.head.behind(slot) or 0) >= DECIDING_LAG
        return late or not self._depth.sleeps(self.by, slot)

    @property
    def looks_up(self) -> bool:
        """Whether it drafts without a model of its own."""
        return self.head is None and self._reader is None

    def take_seconds(self) -> float:
        """Return the seconds that it took since this was last called."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds

    def reconsider(self) -> None:
        """Find out anew whether it could ever pay."""
        self._could_pay = None

    def release(self, slot: int) -> None:
        self._proposer.release(slot)
        self._read.pop(slot, None)

    def _reach(self, ask: Ask) -> int:
        """Return how many tokens to draft at most: more while the text goes on as drafted."""
        streak = self._depth.acceptance(self.by, ask).streak
        return min(ask.limit, max(FIRST_REACH, GROWTH * streak))

    def _follows(self, slot: int) -> bool:
        return self.head is None or self.head.behind(slot) is not None

    def _candidate(self, ask: Ask, offers: Offers) -> Candidate:
        acceptance, rival = self._depth.acceptance(self.by, ask), offers.best_worth(ask.slot)
        return Candidate(ask, acceptance, self._count_unread(ask), rival, self.head is not None)

    def _keep_up(self, candidates: Sequence[Candidate], batch: Batch) -> None:
        """Let a head read what it is far behind with, or leave a text where that is too dear.

        One that could never pay leaves it at once.
        """
        assert self.head
        slots, behind = [], 0
        able = not self._depth.is_hopeless(self.by, REACH)
        for candidate in candidates:
            ask, missed = candidate.ask, behind + candidate.missed
            if able and candidate.missed < DECIDING_LAG:
                continue
            if able and self._depth.affords_reading(self.by, batch, missed):
                slots.append(ask.slot)
                behind = missed
                self._read[ask.slot] = len(ask.history)
            else:
                self.head.leave(ask.slot)
        if slots:
            start = self._clock()
            self.head.catch_up(slots)
            seconds = self._clock() - start
            self.seconds += seconds
            self._depth.costs.note_drafting(self.by, 1, 0, seconds, behind)

    def _draft(self, asks: Sequence[Ask], start: float) -> list[Draft]:
        """Ask for drafts; the tokens that it has not seen are read first."""
        if not asks:
            return []
        missed = max(map(self._count_unread, asks))
        drafts = self._proposer.propose(asks)
        self.seconds += self._note(drafts, start, missed)
        if self.head:
            self._read |= {ask.slot: len(ask.history) for ask in asks}
        return drafts

    def _read_on(self, candidate: Candidate, piece: int) -> None:
        """Read the next piece of a text."""
        ask, start = candidate.ask.blind(), self._clock()
        text = ask.history
        part = text[: len(text) - candidate.missed + piece]
        self._proposer.propose([ask._replace(history=part, prompt=len(text), limit=0)])
        seconds = self._clock() - start
        self.seconds += seconds
        self._depth.costs.note_drafting(self.by, 1, 0, seconds, piece)

    def _note(self, drafts: Sequence[Draft], start: float, missed: int = 0) -> float:
        """Learn how many seconds drafts took since `start`, their planning included."""
        depth = max(max(len(draft), draft.steps) for draft in drafts)
        seconds = self._clock() - start
        self._depth.costs.note_drafting(self.by, len(drafts), depth, seconds, missed)
        return seconds

    def _count_unread(self, ask: Ask) -> int:
        """Count the tokens of a text that it must read before it drafts."""
        if self._reader:
            return self._reader.unread(ask)
        if not self.head:
            return 0
        missed = max(len(ask.history) - self._read.get(ask.slot, 0) - 1, 0)
        return min(missed, self.head.behind(ask.slot) or 0)


def generous(confidences: Sequence[float]) -> bool:
    """Continue a draft that costs nothing until its tokens become too unlikely to be verified."""
    is_short = len(confidences) <= FEW
    return confidences[-1] > UNLIKELY and (is_short or prod(confidences) > LOST)

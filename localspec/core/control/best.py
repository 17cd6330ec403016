"""Asks the proposers that pay, and verifies as much of the best draft as pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from localspec.core.control.ask_timing import AskTiming, Watch
from localspec.core.control.depth import Depth
from localspec.core.control.exploration import ALLOWANCE, HEAD_ALLOWANCE
from localspec.core.control.offers import DraftOffer, Offers
from localspec.core.control.priced_proposer import PricedProposer
from localspec.interfaces.costs import Batch
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.draft_stopping import Pays, always
from localspec.interfaces.proposer import (
    ALWAYS_QUIET,
    NOT_QUIET,
    Ask,
    Proposer,
    Quiet,
    RoundCost,
    notes_of,
)


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
        self._clock = clock
        self._proposers = {by: PricedProposer(by, p, depth, clock) for by, p in proposers.items()}
        heads = any(proposer.head for proposer in self._proposers.values())
        self._allowance = HEAD_ALLOWANCE if heads else ALLOWANCE
        self._notes = notes_of(proposers.values())
        self._seconds = 0.0  # of proposing in this round
        self._cheap: dict[int, set[str]] = {}  # proposers that cost next to nothing, by rows
        self._ask_timing = AskTiming(depth)
        self._quiet: dict[int, Quiet] = {}  # by slot, as of the latest asks
        self._offers: dict[int, tuple[int, Sequence[DraftOffer]]] = {}  # by slot, from where on

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        start = self._clock()
        drafts = self._propose(asks)
        self._seconds += self._clock() - start
        return drafts

    def _propose(self, asks: Sequence[Ask]) -> list[Draft]:
        if asks[0].begins:
            return [self._begin(asks[0])]
        reading = [ask for ask in asks if not ask.limit]
        drafting = [ask for ask in asks if ask.limit]
        rows, beside = drafting or reading, asks[0].beside
        batch = self.depth.batch(len(rows), sum(len(ask.history) for ask in rows), beside)
        watches = self._watches(drafting, self._ask_timing.pays(batch))
        due = self._ask_timing.due(drafting, watches)
        for ask in due:
            self._judge(ask)
        if reading:
            for proposer in self._proposers.values():
                proposer.read(reading)
        drafts = self._best(due, batch) if due else {}
        self._quiet = self._ask_timing.quiets(drafting, watches)
        return [drafts.get(ask.slot, EMPTY) for ask in asks]

    def _begin(self, ask: Ask) -> Draft:
        """Draft the beginning of a reply without reading its prompt, for which it would wait."""
        batch = self.depth.batch(1, len(ask.history), ask.beside - 1)._replace(begins=True)
        offers = Offers(batch, self.depth)
        for proposer in self._proposers.values():
            if proposer.looks_up:
                proposer.look_up([ask], offers, learns=False)
        self._offers |= {slot: (len(ask.history), some) for slot, some in offers.by_slot.items()}
        return offers.drafts().get(ask.slot, EMPTY)

    def quiet(self, ask: Ask) -> Quiet:
        return self._quiet.get(ask.slot, NOT_QUIET)

    def release(self, slot: int) -> None:
        for proposer in self._proposers.values():
            proposer.release(slot)
        self.depth.release(slot)
        self._offers.pop(slot, None)
        self._ask_timing.release(slot)
        self._quiet.pop(slot, None)

    def note(self, cost: RoundCost) -> None:
        """Learn the cost of a round, and pass it on."""
        drafting = sum(proposer.take_seconds() for proposer in self._proposers.values())
        looking, self._seconds = self._seconds - drafting, 0.0
        self.depth.note(cost, drafting / cost.rounds, looking / cost.rounds, self._allowance)
        if self._ask_timing.note(cost.rounds):
            self._cheap.clear()
            for proposer in self._proposers.values():
                proposer.reconsider()
        for note in self._notes:
            note(cost)

    def _best(self, asks: Sequence[Ask], batch: Batch) -> dict[int, Draft]:
        """Return the best draft for each slot, cut to what is to be verified."""
        rows, proposers, offers = len(asks), self._proposers.values(), Offers(batch, self.depth)
        stale = rows not in self._cheap
        if stale:
            self._cheap[rows] = {by for by in self._proposers if self.depth.is_cheap(by, rows)}
        cheap = self._cheap[rows]
        learns = stale and self._ask_timing.all_seen  # else there were prompts to read
        for proposer in proposers:
            if proposer.by in cheap:
                proposer.look_up(asks, offers, learns=learns)
        for proposer in proposers:
            if proposer.by not in cheap:
                for slot in proposer.draft(asks, offers):
                    self._ask_timing.note_draft(slot)
        lengths = {ask.slot: len(ask.history) for ask in asks}
        self._offers |= {slot: (lengths[slot], some) for slot, some in offers.by_slot.items()}
        drafts = offers.drafts()
        for slot in drafts:
            self._ask_timing.note_draft(slot)
        return drafts

    def _judge(self, ask: Ask) -> None:
        """Learn from how a text went on after the drafts that were offered for it."""
        start, offers = self._offers.pop(ask.slot, (0, ()))
        text = ask.history[start:].tolist() if offers else []
        for offer in offers:
            right = offer.judge(text)
            if right > (not offer.costly):  # a single token is right by chance
                self._ask_timing.note_draft(ask.slot)
            if offer.costly:
                self._proposers[offer.by].note_right(ask.slot, right)

    def _watches(self, asks: Sequence[Ask], pays: Pays) -> dict[int, Watch]:
        """Return the rule by which a slot is looked at, for each that has one."""
        if pays is always:
            return {}
        asks = [ask.until(ask.limit, pays) for ask in asks]
        return {ask.slot: watch for ask in asks if (watch := self._watch(ask))}

    def _watch(self, ask: Ask) -> Watch | None:
        quiets, length = [], len(ask.history)
        for proposer in self._proposers.values():
            if not ask.wants(proposer.by):
                continue
            if not proposer.quiet:
                if proposer.has_decision(ask.slot) and proposer.may_pay(ask.slot):
                    return None
            elif (quiet := proposer.quiet(ask)) is not ALWAYS_QUIET:
                quiets.append(quiet)
        # No short circuit: each of them reads the text on.
        return lambda text: any([quiet.is_over(len(text) - length, text) for quiet in quiets])  # noqa: C419

"""The controller: the draft length that brings the most tokens a second. No clock here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from localspec.control.acceptance import Acceptance, Acceptances
from localspec.control.costs import Batch, Costs
from localspec.control.draft_length import (
    Survivals,
    draft_on,
    longest_affordable,
    trim,
    within,
    worthiest_to_make,
)
from localspec.control.exploration import (
    ALLOWANCE,
    HORIZON,
    MAX_RISK,
    MIN_WAIT,
    Budget,
    TrackRecord,
    TrackRecords,
)
from localspec.control.prices import MARGIN, DraftPrices, Prices, break_even
from localspec.pays import Pays, always
from localspec.proposer import Ask, RoundCost

CHEAP = 0.05  # of a plain round: a proposer that drafts for less is always asked
LASTING = 32  # rounds in which a proposer that pays is expected to go on paying
TRIES_SHARE = 0.014  # of the time, which trying a draft model may take
BEFORE = 5  # earlier drafts of a head, at most, that a try is weighed against
PLAIN_EVERY = 64  # rounds, times the gain: one goes without drafts, to measure that
ALONE = Batch(1)


class Candidate(NamedTuple):
    """One sequence that a costly proposer may draft for."""

    ask: Ask
    acceptance: Acceptance
    missed: int  # tokens that the proposer has not seen
    rival: float  # the worth, in tokens, of the best draft there is already
    head: bool = False  # whether the proposer is a head, which reads along with the target


class DraftPlan(NamedTuple):
    """The draft length to ask for, 0 for none, and whether one more token pays."""

    limit: int
    pays: Pays = always
    prices: DraftPrices = DraftPrices((), ())
    rates: Sequence[float] = ()  # chances of tokens not drafted, if it is to learn what would pay

    def value(self, survivals: Survivals, worth: float) -> float:
        """Return what a draft was worth, in tokens, less what it cost to make.

        One that was made to learn counts as if it had been as long as is best.
        """
        if self.rates and survivals:
            return worthiest_to_make(survivals, self.rates, self.prices.total)[1]
        return worth - self.prices.drafting[len(survivals)]


NO_DRAFT = DraftPlan(0)


@dataclass(slots=True)
class Depth:
    """Decides for each sequence of an engine how many tokens to draft, and with which proposer."""

    costs: Costs = field(default_factory=Costs)
    even: bool = False  # rows of one width are run at once, others one after the other
    acceptances: Acceptances = field(default_factory=Acceptances)
    budget: Budget = field(default_factory=Budget)
    _records: TrackRecords = field(default_factory=TrackRecords)
    _round: int = 0
    _plain: int = 0  # the last round without drafts
    _abstains: bool = False  # from drafts in this round: plain decoding was not seen for long

    def batch(self, asks: Sequence[Ask]) -> Batch:
        """Describe the batch of these requests."""
        held = sum(len(ask.history) for ask in asks)
        return Batch(len(asks), held, self._seen(len(asks), held), asks[0].beside)

    def _seen(self, rows: int, held: int) -> float:
        """Count what each token is compared with: in one pool, the tokens of all rows."""
        return held / rows if self.even else held

    def acceptance(self, by: str, ask: Ask) -> Acceptance:
        """Return what is known of a proposer's drafts for one text."""
        bound = ask.hints.forced is not None
        return self.acceptances.of_text(by, ask.slot, ask.sampler, bound=bound)

    def prices(self, batch: Batch) -> Prices:
        return Prices(self.costs, batch, self.budget.gain, self.even)

    def affordable(self, batch: Batch, most: int) -> Sequence[float]:
        """Return the prices of verifying 0, 1, ... draft tokens, as far as they may be lost."""
        if self._abstains:
            return (0.0,)
        return within(self.budget.max_risk(batch.rows), self.prices(batch).verifying(most))

    def trim(self, batch: Batch, drafts: Sequence[Survivals]) -> list[int]:
        """Choose how many tokens of each draft to verify."""
        if self._abstains:
            return [0] * len(drafts)
        max_risk = self.budget.max_risk(batch.rows)
        return trim(drafts, self.prices(batch), max_risk)

    def is_cheap(self, by: str, rows: int) -> bool:
        """Whether a proposer drafts for next to nothing, as far as is known."""
        curve = self.costs.drafting(by, rows)
        return curve is None or curve.at(4) < CHEAP * self.costs.target(rows).at(rows)

    def hopeless(self, by: str, limit: int) -> bool:
        """Whether a proposer could not pay for one sequence even if it were always right."""
        if self.costs.drafting(by, 1) is None:
            return False
        return not self.prices(ALONE).drafting(by, 1, limit).least

    def affords_reading(self, by: str, batch: Batch, behind: int) -> bool:
        """Whether a proposer may read what it is behind of a text that it does not draft for."""
        rounds = self.costs.reading(by, behind) / self.costs.at(batch, batch.rows)
        return rounds * HORIZON <= behind * self.budget.left

    def sleeps(self, by: str, slot: int) -> bool:
        """Whether a costly proposer is not to be asked yet."""
        return self._records.sleeps(by, slot, self._round)

    def _record(self, by: str, slot: int) -> TrackRecord:
        return self._records.of_text(by, slot, self._round)

    def plan(self, by: str, batch: Batch, candidates: Sequence[Candidate]) -> list[DraftPlan]:
        """Plan how far a costly proposer shall draft for each candidate."""
        nothing = [NO_DRAFT] * len(candidates)
        records = [self._record(by, candidate.ask.slot) for candidate in candidates]
        if self._abstains or all(record.sleeps(self._round) for record in records):
            return nothing
        prices, most = self.prices(batch), max(candidate.ask.limit for candidate in candidates)
        of_drafts = prices.drafting(by, len(candidates), most)
        if not of_drafts.least:
            return nothing
        plans = []
        for record, candidate in zip(records, candidates, strict=True):
            reading = prices.rate * self.costs.reading(by, candidate.missed)
            plans.append(self._plan(record, candidate, of_drafts, reading))
        return plans

    def _plan(
        self, record: TrackRecord, candidate: Candidate, prices: DraftPrices, reading: float
    ) -> DraftPlan:
        ask, acceptance = candidate.ask, candidate.acceptance
        threshold = candidate.rival + reading / LASTING + (0.0 if record.pays else MARGIN)
        record.pays = record.value > threshold
        if not record.pays:
            if self._round < record.next_try or candidate.rival > 0:
                return NO_DRAFT
            return self._try(record, candidate, prices, reading)
        max_risk = MAX_RISK * (self.budget.worth - reading)
        limit = longest_affordable(prices.total, prices.least, ask.limit, max_risk)
        if not limit:
            return self._wait(record)
        record.latest = self._round
        return DraftPlan(limit, draft_on(acceptance, prices.total, limit), prices)

    def _try(
        self, record: TrackRecord, candidate: Candidate, prices: DraftPrices, reading: float
    ) -> DraftPlan:
        """Plan a draft that is made to learn whether its proposer pays."""
        ask, acceptance, budget = candidate.ask, candidate.acceptance, self.budget.worth
        rates = acceptance.ahead(ask.limit)
        best, _ = worthiest_to_make((), rates, prices.total)
        most = min(max(best, prices.least), ask.limit)
        # The text judges drafts with the target's dice, whether they are verified or not.
        lost = prices.drafting if ask.sampler.shares_dice else prices.total
        limit = longest_affordable(lost, prices.least, most, MAX_RISK * budget - reading)
        if not limit:
            return self._wait(record)
        share = max(budget, MARGIN) / HORIZON if candidate.head else self.budget.gain * TRIES_SHARE
        record.postpone(self._round, int((lost[limit] + reading) / share))
        record.asked = min(record.asked, BEFORE) if candidate.head else 1
        record.break_even = break_even(prices.total)
        acceptance.forget(self._round - record.latest)
        record.latest = self._round
        return DraftPlan(limit, always, prices, rates)

    def _wait(self, record: TrackRecord) -> DraftPlan:
        record.affordable = self._round + MIN_WAIT
        return NO_DRAFT

    def note_worth(self, by: str, slot: int, worth: float) -> None:
        """Learn what a draft was worth, less what it cost to make."""
        self._record(by, slot).note_worth(worth)

    def note_right(self, by: str, slot: int, right: int) -> None:
        """Learn how many tokens of a draft were right."""
        self._record(by, slot).note_right(right, self._round)

    def note(
        self,
        cost: RoundCost,
        drafting: float,
        looking: float = 0.0,
        allowance: float = ALLOWANCE,
    ) -> None:
        """Learn the cost of a round, drafting apart, and looking for drafts that cost nothing."""
        self._round += cost.rounds
        if cost.tokens == cost.rows:
            self._plain = self._round
        if not cost.reads:
            self._account(cost._replace(seconds=cost.seconds - looking), drafting, allowance)
        self._abstains = self._round - self._plain >= PLAIN_EVERY * self.budget.gain

    def _account(self, cost: RoundCost, drafting: float, allowance: float) -> None:
        batch = Batch(cost.rows, cost.held, self._seen(cost.rows, cost.held))
        wide = self._learn(batch, cost, cost.seconds - drafting)
        plain = wide if cost.tokens == cost.rows else self.costs.at(batch, cost.rows)
        time = (wide + drafting) / plain
        self.budget.note(cost.emitted / cost.rows, time, cost.rounds, allowance)

    def _learn(self, batch: Batch, cost: RoundCost, seconds: float) -> float:
        """Learn how long a round took; return how long such rounds take.

        No draft is to blame for a hiccup of this one.
        """
        if not self.prices(batch).apart or 2 * cost.widest <= cost.tokens:
            self.costs.note(batch, cost.tokens, seconds)
            return self.costs.at(batch, cost.tokens)
        wide = self.costs.at(batch.one_row, cost.widest)
        taken = wide + self.costs.at(batch.one_row, cost.tokens - cost.widest)
        self.costs.note(batch.one_row, cost.widest, seconds * wide / taken)
        return taken

    def release(self, slot: int) -> None:
        self.acceptances.release(slot)
        self._records.release(slot)

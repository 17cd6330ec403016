"""The controller: the draft length that brings the most tokens a second. No clock here."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from localspec.core.control.acceptance import Acceptance, Acceptances
from localspec.core.control.draft_length import (
    Survivals,
    draft_on,
    longest_affordable,
    trim,
    trim_evenly,
    worthiest_to_make,
)
from localspec.core.control.exploration import (
    HORIZON,
    MAX_RISK,
    MAX_WAIT,
    MIN_WAIT,
    Budget,
    TrackRecord,
    TrackRecords,
)
from localspec.core.control.prices import MARGIN, DraftPrices, Prices, break_even
from localspec.interfaces.costs import Batch, Costs
from localspec.interfaces.draft_stopping import Pays, always
from localspec.interfaces.proposer import Ask, RoundCost

CHEAP = 0.05  # a proposer that drafts in this share of a plain round is always asked
LASTING = 32  # rounds in which a proposer that pays is expected to go on paying
TRIES = 0.014  # the share of the time that trying a draft model may take
MIN_PIECE = 32  # tokens of a text that a draft model reads at once: fewer take longer each
# A round goes without drafts, to measure that, after so many rounds times the gain; and where the
# time of a plain round has a larger variance than this, times the gain.
PLAIN_EVERY, MAX_DOUBT = 64, 0.007
HICCUP = 1.5  # what takes longer than so many times the expected time is not the drafts' fault
ALONE = Batch(1)


class Candidate(NamedTuple):
    """One sequence that a costly proposer may draft for."""

    ask: Ask
    acceptance: Acceptance
    missed: int  # tokens that the proposer has not seen
    rival: float  # the worth, in tokens, of the best draft there is already
    head: bool = False  # whether the proposer is a head, which reads along with the target


class CostlyWork(IntEnum):
    """The work of costly proposers in a round, by who pays for it: the last of these counts."""

    NONE = 0
    DRAFT = 1  # promises to pay: it is paid for by all drafts, and what it wins pays for tries
    READ = 2  # for drafts that promise to pay: an investment
    TRY = 3  # to learn whether a proposer pays, or to keep it able to draft: from a budget apart


class Unread(NamedTuple):
    """Tokens of a text that a costly proposer has to read before it drafts."""

    price: float  # of reading them, in tokens
    piece: int  # to read in this round, without a draft; 0: few are unread, and go with the draft


class DraftPlan(NamedTuple):
    """The draft length to ask for, 0 for none, and whether one more token pays.

    Where much is unread, a piece of it is to be read, and nothing drafted.
    """

    limit: int
    piece: int = 0  # tokens to read
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
    _work: CostlyWork = CostlyWork.NONE  # in this round
    _abstains: bool = False  # from drafts in this round: plain decoding was not seen for long

    def batch(self, rows: int, held: int, beside: int = 0) -> Batch:
        """Describe a batch of rows; in a pool, each token attends over the cells of all rows."""
        return Batch(rows, held, held / rows if self.even else held, beside)

    def acceptance(self, by: str, ask: Ask) -> Acceptance:
        """Return what is known of a proposer's drafts for one text."""
        bound = ask.sampler.is_constrained
        return self.acceptances.of_text(by, ask.slot, ask.sampler, bound=bound)

    def prices(self, batch: Batch) -> Prices:
        return Prices(self.costs, batch, self.budget.gain)

    def verifying(self, batch: Batch, most: int) -> Sequence[float]:
        """Return the prices of verifying 0, 1, ... draft tokens in this round."""
        return (0.0,) if self._abstains else self.prices(batch).verifying(most)

    def affordable(self, batch: Batch, prices: Sequence[float], streak: int = 0) -> Sequence[float]:
        """Return the prices up to the longest draft whose loss the budget can bear.

        So the first drafts of a text are short where wide batches are dear. A text of which the
        last `streak` tokens were as drafted may lose as many again, and its drafts grow within few
        rounds. Beside other replies it may not: all of them would lose.
        """
        streak = streak if batch.rows == 1 else 0
        return prices[: bisect_right(prices, self.budget.max_risk + streak)]

    def trim(self, batch: Batch, drafts: Sequence[Survivals], streak: int = 0) -> list[int]:
        """Choose how many tokens of each draft to verify; where rows are even, of all or none."""
        fewest = min(map(len, drafts)) if len(drafts) == batch.rows else 0
        most = batch.rows * fewest if self.even else sum(map(len, drafts))
        prices = self.affordable(batch, self.verifying(batch, most), streak)
        if not self.even:
            return trim(drafts, prices)
        return [trim_evenly(drafts, prices)] * len(drafts)

    def is_cheap(self, by: str, rows: int) -> bool:
        """Whether a proposer drafts for next to nothing; so does one that was not measured yet."""
        curve = self.costs.drafting(by, rows)
        return curve is None or curve.at(4) < CHEAP * self.costs.target(rows).at(rows)

    def is_hopeless(self, by: str, limit: int) -> bool:
        """Whether a proposer could not pay for one sequence even if it were always right."""
        if self.costs.drafting(by, 1) is None:
            return False
        return not self.prices(ALONE).drafting(by, 1, limit).least

    def affords_reading(self, by: str, batch: Batch, behind: int) -> bool:
        """Whether a proposer may catch up with a text that it drafts nothing for."""
        rounds = self.costs.reading(by, behind) / self.costs.at(batch, batch.rows)
        affords = rounds * HORIZON <= behind * self.budget.tries
        if affords:
            self._work = CostlyWork.TRY
        return affords

    def sleeps(self, by: str, slot: int) -> bool:
        """Whether a costly proposer is not to be asked yet."""
        return self._records.sleeps(by, slot, self._round)

    def record(self, by: str, slot: int) -> TrackRecord:
        return self._records.of_text(by, slot, self._round)

    def plan(self, by: str, batch: Batch, candidates: Sequence[Candidate]) -> list[DraftPlan]:
        """Plan how far a costly proposer shall draft for each candidate."""
        nothing = [NO_DRAFT] * len(candidates)
        records = [self.record(by, candidate.ask.slot) for candidate in candidates]
        if self._abstains or all(record.sleeps(self._round) for record in records):
            return nothing
        prices, most = self.prices(batch), max(candidate.ask.limit for candidate in candidates)
        of_drafts = prices.drafting(by, len(candidates), most)
        if not of_drafts.least:
            return nothing
        plans = []
        for candidate in candidates:
            price = prices.rate * self.costs.reading(by, candidate.missed)
            unread = Unread(price, self._piece(by, batch, candidate))
            plans.append(self._plan(by, candidate, of_drafts, unread))
        return plans

    def _piece(self, by: str, batch: Batch, candidate: Candidate) -> int:
        """Return how many tokens a proposer reads in a plain round's time; 0 if it reads all."""
        token = self.costs.reading(by, MIN_PIECE) / MIN_PIECE
        piece = max(int(self.costs.at(batch, batch.rows) / max(token, 1e-9)), MIN_PIECE)
        return 0 if candidate.head or candidate.missed <= piece else piece

    def _plan(
        self, by: str, candidate: Candidate, prices: DraftPrices, unread: Unread
    ) -> DraftPlan:
        record, acceptance = self.record(by, candidate.ask.slot), candidate.acceptance
        threshold = candidate.rival + unread.price / LASTING + (0.0 if record.pays else MARGIN)
        promise = 0.0 if record.tried or candidate.rival else prices.promise
        record.pays = max(record.value, promise) > threshold
        if not record.pays:
            waits = self._round < record.next_try or candidate.rival > 0
            return NO_DRAFT if waits else self._try(record, candidate, prices, unread)
        max_risk = self.budget.max_risk
        limit = longest_affordable(prices, candidate.ask.limit, max_risk)
        if not limit:
            return self._wait(record)
        if unread.piece:
            self._work = max(self._work, CostlyWork.READ)
            return DraftPlan(0, unread.piece)
        self._work = max(self._work, CostlyWork.DRAFT)
        record.latest = self._round
        pays = draft_on(acceptance, prices.total, limit)
        return DraftPlan(limit, pays=pays, prices=prices)

    def _try(
        self, record: TrackRecord, candidate: Candidate, prices: DraftPrices, unread: Unread
    ) -> DraftPlan:
        """Plan a draft that is made to learn whether its proposer pays."""
        budget, most = self.budget.tries_worth, candidate.ask.limit
        rates = candidate.acceptance.ahead(most)
        best, _ = worthiest_to_make((), rates, prices.total)
        most = min(max(best, prices.least), most)
        limit = longest_affordable(prices, most, MAX_RISK * budget - unread.price)
        if not limit:
            record.postpone(self._round, MAX_WAIT)
            return NO_DRAFT
        self._work = CostlyWork.TRY
        if unread.piece:
            return DraftPlan(0, unread.piece)
        share = max(budget, MARGIN) / HORIZON if candidate.head else self.budget.gain * TRIES
        record.postpone(self._round, int((prices.total[limit] + unread.price) / share))
        record.asks, record.break_even = 1, break_even(prices.total)
        candidate.acceptance.forget(self._round - record.latest)
        record.latest = self._round
        return DraftPlan(limit, prices=prices, rates=rates)

    def _wait(self, record: TrackRecord) -> DraftPlan:
        """Plan no draft, and none for some rounds: the budget does not pay for it."""
        record.affordable = self._round + MIN_WAIT
        return NO_DRAFT

    def note(self, cost: RoundCost, drafting: float, looking: float, allowance: float) -> None:
        """Learn the cost of a round; of its seconds, `drafting` and `looking` went into drafts."""
        self._round += cost.rounds
        plain = cost.tokens == cost.rows
        if plain:
            self._plain = self._round
        if not cost.reads:
            batch = self.batch(cost.rows, cost.held)
            seconds = cost.seconds - looking - drafting
            self.costs.note(batch, cost.tokens, seconds)
            expected = self.costs.at(batch, cost.tokens)
            # Beside others the measured time counts, unless it is a hiccup: few widths recur.
            wide = expected if cost.rows == 1 else min(seconds, HICCUP * expected)
            time = (wide + drafting) / (wide if plain else self.costs.at(batch, cost.rows))
            tokens = cost.emitted / cost.rows
            if self._work <= CostlyWork.DRAFT:
                self.budget.note(tokens, time, cost, allowance)
            if self._work in (CostlyWork.DRAFT, CostlyWork.TRY):
                self.budget.note_costly(cost.rows * (tokens - time))
        self._work = CostlyWork.NONE
        late = self._round - self._plain >= PLAIN_EVERY * self.budget.gain
        doubtful = self.costs.target(cost.rows).doubt > MAX_DOUBT * self.budget.gain
        self._abstains = late or doubtful

    def release(self, slot: int) -> None:
        self.acceptances.release(slot)
        self._records.release(slot)

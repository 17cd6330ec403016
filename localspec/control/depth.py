"""The controller: the draft length that brings the most tokens a second. No clock here.

A round that brings `v` tokens in `t` seconds is worth v - rate * t tokens, where `rate` is what
seconds have brought of late. To maximise that worth round by round is to maximise tokens a second
in the long run, also where good rounds and bad ones alternate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from localspec.control.acceptance import Acceptance, Acceptances
from localspec.control.bill import ENTER, Bill, Survivals
from localspec.control.costs import Batch, Costs
from localspec.pays import Pays, always
from localspec.proposer import Ask, RoundCost

CHEAP = 0.05  # of a plain round: a proposer that drafts for less is always asked
NEWCOMER = 0.1  # tokens that asking a new proposer is expected to bring
VALUE = 0.05  # weight of the latest draft in the value of asking
BEFORE = 5  # earlier drafts of a head, at most, that a try is weighed against
USUAL = 0.3  # weight of the latest text in the value expected of the next
REST, LONGEST = 4, 24  # rounds until it is tried again; doubled each time that it fails
STAKE = 0.5  # of the purse, which one round may lose
TRYING = 0.014  # plain rounds of each round that trying a draft model may take
ALLOWANCE = 0.016  # plain rounds that each round adds to what may be lost by trying
HORIZON = 1000  # rounds for which the purse must suffice, if tries of a head and its reading go on
THRIFT = 0.003  # the allowance of heads
PURSE = 6.0  # plain rounds that may be lost in the beginning
FULL = 12.0  # and later at most, times what rounds take of late
LASTING = 32  # rounds in which a proposer that pays is expected to go on paying
WINDOW = 1 / 32  # weight of the latest round in the rate
ALIKE, SELDOM = 16, 4  # rounds without drafts after which only every so many-th is learned from
APART = 2  # rows that may be drafted for unequally far, where rows of unequal widths run in turn
PLAIN = 64  # rounds with drafts, times the gain, after which one goes without, to measure that


@dataclass(frozen=True, slots=True)
class Seat:
    """One sequence in a round, with the odds of a proposer's drafts for it."""

    ask: Ask
    acceptance: Acceptance
    missed: int  # tokens that the proposer has not seen
    worth: float  # in tokens, of the best draft there is already


@dataclass(frozen=True, slots=True)
class Wish:
    """The draft length asked for, 0 for none, and whether one more token pays."""

    limit: int
    pays: Pays = always
    bill: Bill | None = None
    rates: Sequence[float] = ()  # chances of tokens not drafted, if it is to learn what would pay

    def value(self, survivals: Survivals, worth: float) -> float:
        """Return what a draft was worth, in tokens, less what it cost to make.

        One that was made to learn counts as if it had been as long as is best.
        """
        assert self.bill is not None
        if self.rates and survivals:
            return self.bill.best(survivals, self.rates)[1]
        return worth - self.bill.drafting[len(survivals)]


NO = Wish(0)
ALONE = Batch(1)


@dataclass(slots=True)
class Standing:
    """The value of a costly proposer for one text."""

    value: float  # tokens of late, less the price of drafting
    asked: int = 1
    pays: bool = False
    until: int = 0  # the round in which it is tried again, if it does not pay
    rounds: int = REST
    latest: int = 0  # the round in which it drafted last
    enough: int = 0  # draft tokens that had to be right to pay, then; 0: all would not do
    dear: int = 0  # the round until which the purse will hardly pay for a draft


@dataclass(slots=True)
class Depth:
    """Decides for each sequence of an engine how many tokens to draft, and with which proposer."""

    costs: Costs = field(default_factory=Costs)
    even: bool = False  # rows of one width are run at once, others one after the other
    acceptances: Acceptances = field(default_factory=Acceptances)
    thrifty: bool = False  # tries take what is left to lose, as is best for heads
    _standings: dict[tuple[str, int], Standing] = field(default_factory=dict)
    _left: dict[str, Standing] = field(default_factory=dict)  # with which earlier texts were left
    _round: int = 0
    _plain: int = 0  # the last round without drafts
    _drafted: int = 0  # the last round with any
    _purse: float = PURSE
    _won: float = 1.0  # tokens and plain rounds' time of late
    _spent: float = 1.0
    _abstains: bool = False  # plain decoding was not seen for long

    @property
    def gain(self) -> float:
        """Return the speed of late, plain decoding being 1."""
        return max(self._won / self._spent, 1.0)

    def prices(self, batch: Batch, most: int) -> list[float]:
        """Return the price, in tokens, of verifying 0, 1, ... draft tokens in a round.

        Tokens of prompts that are read beside them are worth as much as any: where a batch is so
        wide that each token takes its time, a wrong draft token holds a prompt up.
        """
        if not self.apart(batch):
            return self._prices_together(batch, most)
        both = self.costs.at(batch, 2)
        first, *others = self.costs.stretch(one_of(batch), 1, 1 + most)
        rate = self.gain * batch.rows / both
        return [0.0, *[rate * (first + each - both) for each in others]]

    def _prices_together(self, batch: Batch, most: int) -> list[float]:
        width = batch.rows + batch.beside
        seconds = self.costs.stretch(batch, width, width + most)
        first = seconds[0]
        rate = self.gain * width / first
        return [rate * (each - first) for each in seconds]

    def apart(self, batch: Batch) -> bool:
        """Whether a row with a draft is run on its own, and the other one after it.

        Of three rows, those without drafts might not be neighbours, and be run in turn as well.
        """
        return self.even and batch.rows == APART and not batch.beside

    def affordable(self, batch: Batch, prices: Sequence[float]) -> Sequence[float]:
        """Cut prices where a round would lose too much, if all its draft tokens were wrong.

        So what is new to a text is first verified a little way, where width is dear.
        """
        stake = self.gain * batch.rows * STAKE * self._purse
        return prices[: bisect_right(prices, stake)]

    def batch(self, asks: Sequence[Ask]) -> Batch:
        """Describe the batch of these requests."""
        held = sum(len(ask.history) for ask in asks)
        return Batch(len(asks), held, self._seen(len(asks), held), asks[0].beside)

    def _seen(self, rows: int, held: int) -> float:
        """Count what each token is compared with: in one pool, the tokens of all rows."""
        return held / rows if self.even else held

    def is_cheap(self, by: str, rows: int) -> bool:
        """Whether a proposer drafts for next to nothing, as far as is known."""
        curve = self.costs.drafting(by, rows)
        return curve is None or curve.at(4) < CHEAP * self.costs.target(rows).at(rows)

    def wish(self, by: str, batch: Batch, seats: Sequence[Seat]) -> list[Wish]:
        """Decide how far a costly proposer shall draft for each seat."""
        standings = [self._standing(by, seat.ask.slot) for seat in seats]
        if self._abstains or all(map(self._sleeps, standings)):
            return [NO for _ in seats]
        most = max(seat.ask.limit for seat in seats)
        bill = self._bill(by, batch, len(seats), self.prices(batch, most))
        if not bill.least():
            return [NO for _ in seats]
        found = []
        for seat, known in zip(seats, standings, strict=True):
            reading = bill.rate * self.costs.reading(by, seat.missed)
            found.append(self._wish(known, seat, bill, reading))
        return found

    def sleeps(self, by: str, slot: int) -> bool:
        """Whether a costly proposer is not to be asked yet."""
        known = self._standings.get((by, slot))
        return known is not None and self._sleeps(known)

    def _sleeps(self, known: Standing) -> bool:
        unlikely = not known.pays and known.value <= ENTER
        return self._round < (max(known.until, known.dear) if unlikely else known.dear)

    def hopeless(self, by: str, limit: int) -> bool:
        """Whether a proposer could not pay for one sequence even if it were always right."""
        return (
            self.costs.drafting(by, 1) is not None
            and not self._bill(by, ALONE, 1, self.prices(ALONE, limit)).least()
        )

    def affords_reading(self, by: str, batch: Batch, behind: int) -> bool:
        """Whether a proposer may read what it is behind of a text that it does not draft for."""
        rounds = self.costs.reading(by, behind) / self.costs.at(batch, batch.rows)
        return rounds * HORIZON <= behind * self._purse

    def _bill(self, by: str, batch: Batch, sharers: int, prices: Sequence[float]) -> Bill:
        curve = self.costs.drafting(by, sharers)
        assert curve is not None
        most = len(prices) - 1
        rate = self.gain * batch.rows / self.costs.at(batch, batch.rows)
        drafting = [0.0, *[rate * seconds / sharers for seconds in curve.stretch(1, most)]]
        return Bill(
            drafting,
            [a + b for a, b in zip(drafting, prices, strict=True)],
            rate,
            self.gain,
        )

    def _wish(self, known: Standing, seat: Seat, bill: Bill, reading: float) -> Wish:
        bar = seat.worth + reading / LASTING + (0.0 if known.pays else ENTER)
        known.pays = known.value > bar
        purse = bill.gain * self._purse
        if known.pays:
            stake = STAKE * (purse - reading)
            limit = bill.affordable(seat.ask.limit, seat.ask.limit, bill.total, stake)
            if not limit:
                return self._too_dear(known)
            known.latest = self._round
            return Wish(limit, bill.stop(seat.acceptance, limit), bill)
        if self._round < known.until or seat.worth > 0:
            return NO
        # The text judges drafts with the target's dice, whether they are verified or not.
        prices = bill.drafting if seat.ask.sampler.shares_dice else bill.total
        rates = seat.acceptance.ahead(seat.ask.limit)
        stake = STAKE * purse - reading
        limit = bill.affordable(bill.best((), rates)[0], seat.ask.limit, prices, stake)
        if not limit:
            return self._too_dear(known)
        share = max(purse, ENTER) / HORIZON if self.thrifty else bill.gain * TRYING
        affordable = (prices[limit] + reading) / share
        known.until = self._round + known.rounds
        known.rounds = min(2 * known.rounds, max(LONGEST, int(affordable)))
        known.asked = min(known.asked, BEFORE) if self.thrifty else 1
        known.enough = bill.least(bill.gain)
        seat.acceptance.forget(self._round - known.latest)
        known.latest = self._round
        return Wish(limit, always, bill, rates)

    def _too_dear(self, known: Standing) -> Wish:
        known.dear = self._round + REST
        return NO

    def brought(self, by: str, slot: int, worth: float) -> None:
        """Learn what a draft was worth, less what it cost to make."""
        known = self._standing(by, slot)
        known.asked += 1
        known.value += max(1 / known.asked, VALUE) * (worth - known.value)

    def _standing(self, by: str, slot: int) -> Standing:
        if (by, slot) not in self._standings:
            usual = self._left.get(by, Standing(NEWCOMER))
            rounds = max(usual.rounds // 2, REST)
            self._standings[by, slot] = Standing(usual.value, rounds=rounds, latest=self._round)
        return self._standings[by, slot]

    def worth(self, survivals: Survivals, prices: Sequence[float]) -> tuple[int, float]:
        """Choose how many tokens of a draft to verify; return also their worth beyond the price."""
        length, most, total = 0, 0.0, 0.0
        ways = zip(() if self._abstains else survivals, prices[1:], strict=False)
        for at, (alive, price) in enumerate(ways, start=1):
            total += alive
            if total - price > most:
                length, most = at, total - price
        return length, most

    def trim(self, batch: Batch, drafts: Sequence[Survivals]) -> list[int]:
        """Choose how many tokens of each draft to verify."""
        lengths = [len(draft) for draft in drafts]
        if self._abstains:
            return [0] * len(drafts)
        if self.apart(batch):
            return self._trim_apart(batch, drafts)
        if self.even:
            return self._trim_evenly(batch, drafts)[0]
        alive = np.array(list(chain.from_iterable(drafts)))
        best = (-alive).argsort(kind="stable")
        prices = self.affordable(batch, self.prices(batch, len(alive)))
        won = np.zeros(len(alive) + 1)
        alive[best].cumsum(out=won[1:])
        count = int((won[: len(prices)] - prices).argmax())
        whose = np.repeat(np.arange(len(drafts)), lengths)
        kept: list[int] = np.bincount(whose[best[:count]], minlength=len(drafts)).tolist()
        return kept

    def _trim_apart(self, batch: Batch, drafts: Sequence[Survivals]) -> list[int]:
        """Verify as many tokens of each row as pay in a batch of its own, or as many of both."""
        both = self.costs.at(batch, 2)
        parting = self.gain * 2 / both * (2 * self.costs.at(one_of(batch), 1) - both)
        prices = self.affordable(batch, self.prices(batch, max(map(len, drafts))))
        alone = [0.0, *[price - parting for price in prices[1:]]]
        each = [self.worth(draft, alone) for draft in drafts]
        together, worth = self._trim_evenly(batch, drafts)
        if sum(won for _, won in each) - parting > worth:
            return [length for length, _ in each]
        return together

    def _trim_evenly(self, batch: Batch, drafts: Sequence[Survivals]) -> tuple[list[int], float]:
        """Choose as many tokens of every row, or none, and return what that is worth."""
        rows = batch.rows
        most = min(map(len, drafts)) if len(drafts) == rows else 0
        prices = self.affordable(batch, self._prices_together(batch, rows * most))[::rows]
        alive = np.array([draft[:most] for draft in drafts]).sum(axis=0)
        worth = np.append(0.0, np.cumsum(alive))[: len(prices)] - prices
        best = int(np.argmax(worth))
        return [best] * len(drafts), float(worth[best])

    def judge(self, by: str, slot: int, right: int) -> None:
        """Try again soon where a draft was accepted."""
        known = self._standing(by, slot)
        if right >= known.enough > 0:
            known.until, known.rounds = self._round, REST

    def note(self, cost: RoundCost, drafting: float, looking: float = 0.0) -> None:
        """Learn the cost of a round, drafting apart, and looking for drafts that cost nothing."""
        self._round += cost.rounds
        if drafting or cost.tokens > cost.rows:
            self._drafted = self._round
        if cost.tokens == cost.rows:
            self._plain = self._round
        alike = self._round - self._drafted if self.thrifty else 0
        if not cost.reads and (alike <= ALIKE or alike % SELDOM < cost.rounds):
            self._account(cost._replace(seconds=cost.seconds - looking), drafting)
        self._abstains = self._round - self._plain >= PLAIN * self.gain

    def _account(self, cost: RoundCost, drafting: float) -> None:
        batch = Batch(cost.rows, cost.held, self._seen(cost.rows, cost.held))
        wide = self._learn(batch, cost, cost.seconds - drafting)
        plain = wide if cost.tokens == cost.rows else self.costs.at(batch, cost.rows)
        spent = (wide + drafting) / plain
        won = cost.emitted / cost.rows
        weight = 1 - (1 - WINDOW) ** cost.rounds
        self._won += weight * (won - self._won)
        self._spent += weight * (spent - self._spent)
        allowance = THRIFT if self.thrifty else ALLOWANCE
        full = FULL * max(self._spent, 1.5)
        earned = cost.rounds * (allowance * won + won - spent)
        self._purse = min(max(self._purse + earned, 0.0), full)

    def _learn(self, batch: Batch, cost: RoundCost, seconds: float) -> float:
        """Learn how long a round took; return how long such rounds take.

        No draft is to blame for a hiccup of this one.
        """
        if not self.apart(batch) or 2 * cost.widest <= cost.tokens:
            self.costs.note(batch, cost.tokens, seconds)
            return self.costs.at(batch, cost.tokens)
        one, other = one_of(batch), cost.tokens - cost.widest
        wide = self.costs.at(one, cost.widest)
        taken = wide + self.costs.at(one, other)
        self.costs.note(one, cost.widest, seconds * wide / taken)
        return taken

    def release(self, slot: int) -> None:
        self.acceptances.release(slot)
        for by in [by for by, where in self._standings if where == slot]:
            left = self._standings.pop((by, slot))
            usual = self._left.get(by, Standing(NEWCOMER)).value
            left.value = usual + USUAL * (left.value - usual)
            self._left[by] = left


def one_of(batch: Batch) -> Batch:
    """Describe a batch of one of these rows."""
    return Batch(1, batch.held // batch.rows, batch.seen)

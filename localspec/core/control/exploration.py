"""The exploration budget: what drafts may lose, and when a proposer that lost is tried again."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.core.control.prices import MARGIN
from localspec.interfaces.proposer import RoundCost

START = 6.0  # plain rounds in a new budget
FULL = 12.0  # the most rounds in a budget, of the length of recent rounds
MAX_RISK = 0.5  # the share of the budget that one round may lose
ALLOWANCE = 0.016  # plain rounds that each round adds to the budget
HEAD_ALLOWANCE = 0.003  # the same where a head may draft
HORIZON = 1000  # rounds for which the budget must pay for the tries of a head and its reading
WINDOW = 1 / 32  # weight of the latest round in the gain
NEWCOMER = 0.1  # tokens that asking a new proposer is expected to bring
VALUE = 0.05  # weight of the latest draft in a track record's value
USUAL = 0.3  # weight of the latest text in the value that the next one begins with
MIN_WAIT, MAX_WAIT = 4, 24  # rounds from one try to the next; each failure doubles them


@dataclass(slots=True)
class Budget:
    """The plain rounds that drafts may lose, and the recent speed."""

    balance: float = START
    tries: float = START  # those that tries of costly proposers may lose, with what these read
    tokens: float = 1.0  # that a recent round brings
    time: float = 1.0  # that it takes, in plain rounds

    @property
    def gain(self) -> float:
        """Return the recent speed, plain decoding being 1."""
        return max(self.tokens / self.time, 1.0)

    @property
    def worth(self) -> float:
        """Return what is left, in tokens for one row."""
        return self.gain * self.balance

    @property
    def tries_worth(self) -> float:
        """Return what is left for tries, in tokens for one row."""
        return self.gain * self.tries

    @property
    def max_risk(self) -> float:
        """Return the tokens that a round may lose."""
        return MAX_RISK * self.worth

    def note(self, tokens: float, time: float, cost: RoundCost, allowance: float) -> None:
        """Account for rounds that brought so many tokens a row, in the time of plain rounds."""
        rounds = cost.rounds
        weight = 1 - (1 - WINDOW) ** rounds
        self.tokens += weight * (tokens - self.tokens)
        self.time += weight * (time - self.time)
        allowed = rounds * allowance * tokens
        self.balance = self._within(self.balance + allowed + rounds * cost.rows * (tokens - time))
        self.tries = self._within(self.tries + allowed)

    def note_costly(self, earned: float) -> None:
        """Account for plain rounds that the draft of a costly proposer won or lost."""
        self.tries = self._within(self.tries + earned)

    def _within(self, plain_rounds: float) -> float:
        return min(max(plain_rounds, 0.0), FULL * max(self.time, 1.5))


@dataclass(slots=True)
class TrackRecord:
    """The value of a costly proposer for one text, and when it is tried if it does not pay."""

    value: float = NEWCOMER  # recent tokens, less the price of drafting
    asks: int = 1
    tried: bool = False  # whether it ever drafted, for this text or an earlier one
    pays: bool = False
    next_try: int = 0  # the round from which on it is tried again, if it does not pay
    wait: int = MIN_WAIT  # rounds until the try after that one
    latest: int = 0  # the round in which it drafted last
    break_even: int = 0  # right tokens by which that draft would have paid; 0: no number would
    affordable: int = 0  # the round from which on the budget may pay for a draft again

    def sleeps(self, now: int) -> bool:
        """Whether there is nothing to decide about its drafts yet."""
        tried = 0 if self.pays or self.value > MARGIN else self.next_try
        return now < max(tried, self.affordable)

    def postpone(self, now: int, longest: int) -> None:
        """Let it wait for its next try, each time twice as long."""
        self.next_try = now + self.wait
        self.wait = min(2 * self.wait, max(MAX_WAIT, longest))

    def note_worth(self, worth: float) -> None:
        """Learn what a draft was worth, less what it cost to make."""
        self.asks, self.tried = self.asks + 1, True
        self.value += max(1 / self.asks, VALUE) * (worth - self.value)

    def note_right(self, right: int) -> None:
        """Let it be tried again at once if enough of a draft was right to pay."""
        if right >= self.break_even > 0:
            self.next_try, self.wait = 0, MIN_WAIT


class TrackRecords:
    """Track records by proposer and slot; a text begins with what earlier ones left."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int], TrackRecord] = {}
        self._earlier: dict[str, TrackRecord] = {}

    def of_text(self, by: str, slot: int, now: int) -> TrackRecord:
        if (by, slot) not in self._texts:
            earlier = self._earlier.get(by, TrackRecord())
            wait = max(earlier.wait // 2, MIN_WAIT)
            self._texts[by, slot] = TrackRecord(
                earlier.value, tried=earlier.tried, wait=wait, latest=now
            )
        return self._texts[by, slot]

    def sleeps(self, by: str, slot: int, now: int) -> bool:
        """Whether there is nothing to decide about a proposer's drafts for a text yet."""
        record = self._texts.get((by, slot))
        return record is not None and record.sleeps(now)

    def release(self, slot: int) -> None:
        for by in [by for by, text_slot in self._texts if text_slot == slot]:
            record = self._texts.pop((by, slot))
            earlier = self._earlier.get(by, TrackRecord())
            weight = USUAL if earlier.tried else 1.0
            record.value = earlier.value + weight * (record.value - earlier.value)
            self._earlier[by] = record

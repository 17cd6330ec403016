"""How likely guesses are to be right: learned from those that were, proposer by proposer.

A guess is judged twice. Before it is made, by its position in the draft; once it is made, by what
its proposer thinks of it. To either comes how well the text at hand has been guessed of late. All
of these are log-odds, with a variance each: what is known well moves little, and what may have
changed in the meantime is known less well again.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.sampler import Sampler

EDGES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87, 0.94, 0.98)  # of confidence, told apart
MIDDLES = (0.03, 0.1, 0.22, 0.37, 0.52, 0.68, 0.81, 0.91, 0.96, 0.985)
POSITIONS = 8  # told apart; those beyond are like the last
FIRST = 0.6  # chance of a guess nothing is known of
DRIFT = 0.002  # variance that each draft adds: a text's mood may change
RECENT = 0.15  # what the latest guess counts in the surprise
CHANCE, CHANGE = 0.3, 1.0  # what of it is put down to chance, and what the rest adds
USUAL = 0.3  # how much of a text's mood the next is expected to share
WARM = (0.0, 0.5, 0.9)  # temperatures up to which guesses are told apart


@dataclass(slots=True)
class Odds:
    """Log-odds of being right, as far as they are known."""

    mean: float
    variance: float
    most: float  # variance that forgetting leads back to
    drift: float  # added by every guess that was judged
    surprise: float = 0.0  # of late; below 0: worse than expected


def chance(one: Odds, other: Odds) -> float:
    return 1 / (1 + math.exp(-one.mean - other.mean))


def learn(kind: Odds, mood: Odds, right: bool) -> None:
    """Share what was not expected between both, by how little is known of each.

    A mood that is surprised again and again in the same way has changed: less is known of it.
    """
    p = chance(kind, mood)
    spread = p * (1 - p)
    scale = 1 / (1 + spread * (kind.variance + mood.variance))
    mood.surprise += RECENT * (right - p - mood.surprise)
    change = CHANGE * max(abs(mood.surprise) - CHANCE, 0.0)
    for odds in (kind, mood):
        step = odds.variance * scale
        odds.mean += step * (right - p)
        odds.variance *= 1 - step * spread
    mood.variance = min(mood.variance + change, mood.most)


def logit(p: float) -> float:
    return math.log(p / (1 - p))


@dataclass(slots=True)
class Record:
    """What is known of one proposer's guesses, at temperatures like these."""

    stated: list[Odds] = field(
        default_factory=lambda: [Odds(logit(p), 0.6, 0.6, 0.002) for p in MIDDLES]
    )
    placed: list[Odds] = field(
        default_factory=lambda: [Odds(logit(FIRST), 0.04, 0.04, 0.001) for _ in range(POSITIONS)]
    )
    goes_on: float = 0.9  # how often another guess follows one, where there is room for it
    usual: tuple[float, float] = (0.0, 0.0)  # moods that texts were left in

    def mood(self) -> Mood:
        stated, placed = self.usual
        return Mood(Odds(stated, 1.2, 2.0, DRIFT), Odds(placed, 1.2, 2.0, DRIFT))

    def leave(self, mood: Mood) -> None:
        """Learn from a text that is over what to expect of the next."""
        now = (mood.stated.mean, mood.placed.mean)
        stated, placed = (
            old + USUAL * (new - old) for old, new in zip(self.usual, now, strict=True)
        )
        self.usual = (stated, placed)


@dataclass(slots=True)
class Mood:
    """How much better or worse than usual one text is guessed."""

    stated: Odds
    placed: Odds


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Of one proposer's guesses for one text."""

    record: Record
    mood: Mood

    def survivals(self, confidences: Sequence[float]) -> list[float]:
        """How likely each guess of a draft is right together with all before it."""
        found, alive = [], 1.0
        stated, mood = self.record.stated, self.mood.stated
        for confidence in confidences:
            alive *= chance(stated[bisect_right(EDGES, confidence)], mood)
            found.append(alive)
        return found

    def next(self, made: int) -> float:
        """How likely the guess after so many is right if those are, whatever it will be."""
        return chance(self.record.placed[min(made, POSITIONS - 1)], self.mood.placed)

    def prospects(self, limit: int, hope: float) -> list[tuple[float, float]]:
        """Of each guess not yet made: how likely it will be made, and be right with all before.

        To hope is to take the mood for better than it seems, by so many standard deviations.
        """
        found, made, alive = [], 1.0, 1.0
        mood = self.mood.placed
        better = Odds(mood.mean + hope * math.sqrt(mood.variance), 0.0, 0.0, 0.0)
        for at in range(limit):
            alive *= chance(self.record.placed[min(at, POSITIONS - 1)], better)
            found.append((made, made * alive))
            made *= self.record.goes_on
        return found

    def note(self, confidences: Sequence[float], right: int, judged: int) -> None:
        """Learn that the first `right` guesses of a draft were, of those that were `judged`."""
        for at in range(min(judged, right + 1)):
            learn(
                self.record.stated[bisect_right(EDGES, confidences[at])],
                self.mood.stated,
                at < right,
            )
            learn(self.record.placed[min(at, POSITIONS - 1)], self.mood.placed, at < right)
        for odds in (self.mood.stated, self.mood.placed):
            odds.variance = min(odds.variance + odds.drift, odds.most)

    def note_length(self, length: int, limit: int) -> None:
        """Learn how far a draft went that might have gone to a limit."""
        for at in range(1, min(length + 1, limit)):
            self.record.goes_on += 0.05 * ((at < length) - self.record.goes_on)


class Acceptances:
    """By proposer and temperature; and by slot, for as long as one text is in it."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, int, bool], Record] = {}
        self._slots: dict[int, dict[str, Acceptance]] = {}

    def of(self, by: str, slot: int, sampler: Sampler, *, bound: bool) -> Acceptance:
        """For a text in a slot; `bound` by a grammar or not."""
        texts = self._slots.setdefault(slot, {})
        if by not in texts:
            key = (by, bisect_left(WARM, sampler.sampling.temperature), bound)
            record = self._records.setdefault(key, Record())
            texts[by] = Acceptance(record, record.mood())
        return texts[by]

    def release(self, slot: int) -> None:
        for text in self._slots.pop(slot, {}).values():
            text.record.leave(text.mood)

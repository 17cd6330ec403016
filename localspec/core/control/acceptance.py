"""Acceptance rates, learned from earlier drafts, proposer by proposer.

A draft token is judged twice: before it is made, by its position in the draft; once it is made, by
its confidence. Both are corrected by how well recent drafts of the same text did. All of these are
log-odds, with a variance each: a small one moves little, and grows where things may have changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import exp, log, sqrt

import numpy as np

from localspec.interfaces.token_source import TokenSource

# Bounds and middles of the classes of confidence, which tell a match of 40 tokens from one of 400.
EDGES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87, 0.94, 0.98, 0.99, 0.995, 0.998, 0.999)
MIDDLES = (0.03, 0.1, 0.22, 0.37, 0.52, 0.68, 0.81, 0.91, 0.96, 0.985, 0.993, 0.997, 0.9985, 0.9994)
FEW = 16  # the first tokens of a draft, which are weighed and learned from one by one
POSITIONS = 8  # positions in a draft with odds of their own; later ones have those of the last
FIRST = 0.6  # the chance of a token that a new proposer begins with
DRIFT, MAX_VARIANCE = 0.002, 2.0  # what each draft adds to a mood's variance, and the most of it
RECENT = 0.15  # weight of the latest token in the surprise
CHANCE = 0.3  # the part of a surprise that is put down to chance; the rest adds to the variance
HOPE = 0.5  # standard deviations by which a mood is raised for tokens that are yet to be drafted
CAUTION = 0.8  # and lowered for looked-up tokens, which teach even if they are not verified
USUAL = 0.3  # the part of a text's mood that the next is expected to share
WARM = (0.0, 0.5, 0.9)  # upper bounds of the classes of temperature


@dataclass(slots=True)
class Odds:
    """Log-odds of being right, and how uncertain they are."""

    mean: float
    variance: float


@dataclass(slots=True)
class Mood:
    """The log-odds by which drafts of one text do better or worse than usual."""

    mean: float
    variance: float = 1.2
    surprise: float = 0.0  # recent; below 0: worse than expected


def learn(kinds: Sequence[Odds], mood: Mood, right: int) -> None:
    """Learn that the first `right` tokens of these kinds were right, and the next was not.

    The error is shared between kind and mood, by their variances. A mood that errs again and again
    in the same direction has changed: its variance grows.
    """
    mean, variance, surprise = mood.mean, mood.variance, mood.surprise
    for at, kind, count in alike(kinds, right):
        p = 1 / (1 + exp(-kind.mean - mean))
        missed = (at < right) - p
        spread = count * p * (1 - p)
        scale = 1 / (1 + spread * (kind.variance + variance))
        step = kind.variance * scale
        kind.mean += step * count * missed
        kind.variance *= 1 - step * spread
        step = variance * scale
        mean += step * count * missed
        variance *= 1 - step * spread
        surprise += (1 - (1 - RECENT) ** count) * (missed - surprise)
        if abs(surprise) > CHANCE:
            variance += abs(surprise) - CHANCE
    mood.mean, mood.variance, mood.surprise = mean, min(variance + DRIFT, MAX_VARIANCE), surprise


def alike(kinds: Sequence[Odds], right: int) -> Iterator[tuple[int, Odds, int]]:
    """Yield a place, its kind, and how many tokens to learn from at once.

    Of a long draft, right tokens of one kind that follow one another are learned from together.
    """
    for at, kind in enumerate(kinds[:FEW]):
        yield at, kind, 1
    at = FEW
    for _, some in groupby(kinds[FEW:right], id):
        kind, *others = some
        yield at, kind, 1 + len(others)
        at += 1 + len(others)
    for kind in kinds[max(FEW, right) :]:
        yield right, kind, 1


def logit(p: float) -> float:
    return log(p / (1 - p))


@dataclass(slots=True)
class ProposerRecord:
    """The acceptance of one proposer's drafts, at temperatures like these."""

    first: list[Odds] = field(default_factory=lambda: [Odds(logit(p), 0.6) for p in MIDDLES])
    stated: list[Odds] = field(default_factory=lambda: [Odds(logit(p), 0.6) for p in MIDDLES])
    placed: list[Odds] = field(
        default_factory=lambda: [Odds(logit(FIRST), 0.04) for _ in range(POSITIONS)]
    )
    usual: tuple[float, float] = (0.0, 0.0)  # moods that texts were left in

    def leave(self, text: Acceptance) -> None:
        """Learn from a finished text for the next."""
        stated, placed = self.usual
        stated += USUAL * (text.stated.mean - stated)
        placed += USUAL * (text.placed.mean - placed)
        self.usual = (stated, placed)


class Acceptance:
    """The acceptance of one proposer's drafts for one text."""

    def __init__(self, record: ProposerRecord) -> None:
        self.record = record
        self.stated, self.placed = map(Mood, record.usual)
        self.streak = 0  # how many of the newest tokens of the text were as they were drafted

    def forget(self, rounds: int) -> None:
        """Trust what was learned less: so many rounds went by without a draft."""
        for mood in (self.stated, self.placed):
            mood.variance = min(mood.variance + DRIFT * rounds, MAX_VARIANCE)

    def weigh(
        self, confidences: Sequence[float], caution: float = 0.0
    ) -> tuple[list[Odds], list[float]]:
        """Return the odds of each token, and the chance that it and all before are right."""
        record, mood = self.record, self.stated.mean - caution * sqrt(self.stated.variance)
        if len(confidences) > FEW:
            return self._weigh_many(confidences, mood)
        kinds, survivals, alive = [], [], 1.0
        stated = record.first  # the first token shows more than the others
        for confidence in confidences:
            kind = stated[bisect_right(EDGES, confidence)]
            alive /= 1 + exp(-kind.mean - mood)
            kinds.append(kind)
            survivals.append(alive)
            stated = record.stated
        return kinds, survivals

    def _weigh_many(
        self, confidences: Sequence[float], mood: float
    ) -> tuple[list[Odds], list[float]]:
        first, stated = self.record.first, self.record.stated
        classes = np.searchsorted(EDGES, confidences, side="right")
        rates = 1 / (1 + np.exp(-mood - np.array([odds.mean for odds in stated])))[classes]
        places = classes.tolist()
        kinds = [first[places[0]], *map(stated.__getitem__, places[1:])]
        rates[0] = 1 / (1 + exp(-kinds[0].mean - mood))
        survivals: list[float] = rates.cumprod().tolist()
        return kinds, survivals

    def ahead(self, limit: int) -> list[float]:
        """Return the chance of each token not yet drafted, if all before it are right."""
        mood = self.placed.mean + HOPE * sqrt(self.placed.variance)
        rates = [1 / (1 + exp(-odds.mean - mood)) for odds in self.record.placed[:limit]]
        return rates + rates[-1:] * (limit - len(rates))

    def note(self, kinds: Sequence[Odds], right: int, judged: int) -> None:
        """Learn that of the first `judged` tokens of a draft the first `right` were right."""
        learn(kinds[: min(judged, right + 1)], self.stated, right)
        self.streak = self.streak + judged if right == judged else 0

    def note_places(self, right: int, judged: int) -> None:
        """Learn the same by the tokens' positions in the draft."""
        placed = self.record.placed
        last = placed[-1:] * (judged - len(placed))
        learn((placed + last)[: min(judged, right + 1)], self.placed, right)


class Acceptances:
    """Acceptances by proposer and temperature, and by slot while one text is in it."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, int, bool], ProposerRecord] = {}
        self._texts: dict[tuple[str, int], Acceptance] = {}

    def of_text(self, by: str, slot: int, sampler: TokenSource, *, bound: bool) -> Acceptance:
        """Return the acceptance for the text in a slot; `bound` by a grammar or not."""
        text = self._texts.get((by, slot))
        if text is None:
            key = (by, bisect_left(WARM, sampler.sampling.temperature), bound)
            record = self._records.setdefault(key, ProposerRecord())
            text = self._texts[by, slot] = Acceptance(record)
        return text

    def release(self, slot: int) -> None:
        for by in [by for by, text_slot in self._texts if text_slot == slot]:
            text = self._texts.pop((by, slot))
            text.record.leave(text)

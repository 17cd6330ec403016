"""Figures of a setting: each side beside the first, by round, and the median of the rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from benchmarks.comparison.asking import TimedReply
from benchmarks.comparison.drafts import conditional, summed
from benchmarks.comparison.measure import Volley
from benchmarks.comparison.noise import half_width

ALL = "all"

Place = tuple[str, int, int, int]  # of a reply: side, round, section, number in it
Leads = Mapping[Place, float]  # of near-ties, where texts differ


@dataclass(frozen=True, slots=True)
class SideFigures:
    """One side in one category of a setting, or in all; seconds, and tokens a second.

    Ratios are to the first side. Percentiles are of all rounds together.
    """

    side: str
    category: str
    speeds: tuple[float, ...]  # by round
    speed_ratio: float
    noise: float | None  # half the 95% interval of that ratio, as a share of it
    whole_ratio: float  # of tokens a second of whole replies, reading of prompts included
    first_p50: float
    first_p95: float
    first_ratio: float
    first_p95_ratio: float
    gap_p95: float
    gap_longest: float
    tokens_a_forward: float
    drafted: int
    accepted: int
    acceptance: tuple[float, ...]  # by position, where all before it was accepted
    same_texts: float  # share of replies that are the first side's
    near_ties: float  # share of replies that part from it at a near-tie
    cached: float  # share of prompt tokens that came from a cache
    prompt_tokens: float  # mean of a prompt
    tokens: int

    @property
    def speed(self) -> float:
        return median(self.speeds)


def summarise(
    volleys: Sequence[Volley], streams: int, leads: Leads | None = None
) -> list[SideFigures]:
    """Return the figures of each side over everything, then by category if one stream asked."""
    sides = list(dict.fromkeys(volley.side for volley in volleys))  # round one begins with a first
    categories = sorted({reply.category for volley in volleys for reply in volley.replies})
    shown = [ALL, *categories] if streams == 1 and len(categories) > 1 else [ALL]
    measure = decoding_speed if streams == 1 else throughput
    parts = (SettingPart(volleys, category, measure, leads or {}) for category in shown)
    return [figures(part, side, sides[0]) for part in parts for side in sides]


def decoding_speed(volleys: Sequence[Volley], category: str = ALL) -> float:
    """Divide the tokens after those that came first by the time they took."""
    replies = replies_of(volleys, category)
    seconds = sum(reply.decoding_seconds for reply in replies)
    return sum(reply.decoded for reply in replies) / max(seconds, 1e-9)


def throughput(volleys: Sequence[Volley], category: str) -> float:
    """Divide all tokens by all the time, reading of prompts included."""
    tokens = sum(reply.tokens for reply in replies_of(volleys, category))
    return tokens / max(sum(volley.seconds for volley in volleys), 1e-9)


def replies_of(volleys: Sequence[Volley], category: str) -> list[TimedReply]:
    replies = chain.from_iterable(volley.replies for volley in volleys)
    return [reply for reply in replies if category in (ALL, reply.category)]


@dataclass(frozen=True, slots=True)
class SettingPart:
    """The measurements of all sides in a category."""

    volleys: Sequence[Volley]
    category: str
    speed: Callable[[Sequence[Volley], str], float]
    leads: Leads = field(default_factory=dict)

    def of(self, side: str, number: int | None = None) -> list[Volley]:
        """Return a side's volleys, of one round or of all, by round and section."""
        mine = [volley for volley in self.volleys if volley.side == side]
        chosen = [volley for volley in mine if number is None or volley.round == number]
        return sorted(chosen, key=lambda volley: (volley.round, volley.section))

    def speeds(self, side: str) -> tuple[float, ...]:
        return tuple(self.speed(self.of(side, number), self.category) for number in self.rounds)

    def whole_speeds(self, side: str) -> list[float]:
        """Divide the tokens of each round by the time from request to end of their replies."""
        replies = [replies_of(self.of(side, number), self.category) for number in self.rounds]
        return [
            sum(reply.tokens for reply in group) / sum(reply.seconds for reply in group)
            for group in replies
        ]

    def paces(self, side: str) -> tuple[tuple[float, ...], ...]:
        """Return the seconds a token of each section, round by round."""
        by_section: dict[int, list[float]] = {}
        for volley in self.of(side):
            if replies_of([volley], self.category):
                speed = self.speed([volley], self.category)
                by_section.setdefault(volley.section, []).append(1 / max(speed, 1e-9))
        return tuple(tuple(paces) for _, paces in sorted(by_section.items()))

    def firsts(self, side: str, percent: float) -> list[float]:
        """Return a percentile of the times to the first token, round by round."""
        replies = [replies_of(self.of(side, number), self.category) for number in self.rounds]
        return [percentile([reply.first_seconds for reply in group], percent) for group in replies]

    def near_ties(self, side: str) -> int:
        """Count the replies that part from the first side's at a near-tie."""
        return sum(
            (side, volley.round, volley.section, number) in self.leads
            for volley in self.of(side)
            for number, reply in enumerate(volley.replies)
            if self.category in (ALL, reply.category)
        )

    @property
    def rounds(self) -> list[int]:
        return sorted({volley.round for volley in self.volleys})


def figures(part: SettingPart, side: str, yardstick: str) -> SideFigures:
    mine = replies_of(part.of(side), part.category)
    theirs = replies_of(part.of(yardstick), part.category)
    firsts = [reply.first_seconds for reply in mine]
    gaps = [gap for reply in mine for gap in reply.gaps] or [0.0]
    same = sum(a.text == b.text for a, b in zip(mine, theirs, strict=True))
    read = sum(reply.prompt_tokens for reply in mine)
    tokens = sum(reply.tokens for reply in mine)
    accepted = sum(reply.drafts.accepted for reply in mine)
    return SideFigures(
        side,
        part.category,
        speeds=part.speeds(side),
        speed_ratio=ratio(part.speeds(side), part.speeds(yardstick)),
        noise=half_width(part.paces(side), part.paces(yardstick)) if side != yardstick else 0.0,
        whole_ratio=ratio(part.whole_speeds(side), part.whole_speeds(yardstick)),
        first_p50=percentile(firsts, 50),
        first_p95=percentile(firsts, 95),
        first_ratio=ratio(part.firsts(side, 50), part.firsts(yardstick, 50)),
        first_p95_ratio=ratio(part.firsts(side, 95), part.firsts(yardstick, 95)),
        gap_p95=percentile(gaps, 95),
        gap_longest=max(gaps),
        tokens_a_forward=tokens / max(tokens - accepted, 1),  # each forward brings one of its own
        drafted=sum(reply.drafts.drafted for reply in mine),
        accepted=accepted,
        acceptance=conditional(summed(reply.drafts.positions for reply in mine)),
        same_texts=same / len(mine),
        near_ties=part.near_ties(side) / len(mine),
        cached=sum(reply.cached_tokens for reply in mine) / max(read, 1),
        prompt_tokens=read / len(mine),
        tokens=tokens,
    )


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median over the rounds of one by the other in the same round."""
    return median([a / max(b, 1e-9) for a, b in zip(mine, theirs, strict=True)])


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent))

"""Texts as the controller sees them: at each place a draft, and how much of it is right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).parent / "recorded.json"
FURTHEST = 16  # tokens of a draft
TAKES = 4  # of each invented text
SPREAD = 6.0  # of confidences around the rate; the more, the narrower

FloatArray = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class PlaceDraft:
    """A proposer's draft at one place: its confidences, and how many tokens are right."""

    confidences: Sequence[float]
    right: int


@dataclass(frozen=True, slots=True)
class SimulatedText:
    name: str
    drafts: Mapping[str, Sequence[PlaceDraft]]  # by proposer, at each place
    switches: Sequence[int] = ()  # places where it changes character
    begins: Sequence[int] = ()  # places where it is another text that begins

    @property
    def length(self) -> int:
        return min(map(len, self.drafts.values()))


def texts() -> Iterator[Sequence[SimulatedText]]:
    """List the texts that the controller is tried on, several of each invented kind."""
    for rate in (0.2, 0.5, 0.7, 0.8, 0.9, 0.97):
        yield invented(f"right {rate:.0%}", [(3000, rate)])
    yield invented("good, bad, good", [(1500, 0.9), (500, 0.15), (1500, 0.9)])
    yield invented("bad, good, bad", [(500, 0.15), (1500, 0.9), (500, 0.15)])
    yield invented("in stretches of 40", [(40, 0.3), (40, 0.95)] * 37)
    if RECORDED.exists():
        yield recorded()


def invented(name: str, stretches: Sequence[tuple[int, float]]) -> list[SimulatedText]:
    """Make texts with draft tokens right at known rates, one after the other."""
    rates = np.repeat([rate for _, rate in stretches], [length for length, _ in stretches])
    ends = np.cumsum([length for length, _ in stretches])[:-1].tolist()
    switches = [place for place in ends if len(stretches) < 4]
    return [
        SimulatedText(name, {"draft-model": drafts(rates, take)}, switches) for take in range(TAKES)
    ]


def drafts(rates: FloatArray, seed: int) -> list[PlaceDraft]:
    """Draft as a proposer that half knows when it is right."""
    rng = np.random.default_rng(seed)
    ahead = np.append(rates, [rates[-1]] * FURTHEST)
    found = []
    for place in range(len(rates)):
        expected = ahead[place : place + FURTHEST]
        # Spread around the rate so that confidences tell something, and are calibrated.
        sure = rng.beta(SPREAD * expected + 0.05, SPREAD * (1 - expected) + 0.05)
        hits = rng.random(FURTHEST) < sure
        right = int(np.argmin(hits)) if not hits.all() else FURTHEST
        found.append(PlaceDraft([float(round(c, 3)) for c in sure], right))
    return found


def recorded() -> list[SimulatedText]:
    """Read replies of a real pair, as recorded by `scripts/simulate record`, in several orders."""
    replies = [entry["drafts"] for entry in json.loads(RECORDED.read_text(encoding="utf-8"))]
    takes = [np.random.default_rng(take).permutation(len(replies)) for take in range(TAKES)]
    return [one_by_one([replies[at] for at in order]) for order in takes]


def one_by_one(replies: Sequence[Mapping[str, Sequence[tuple[list[int], int]]]]) -> SimulatedText:
    joined = {
        by: [
            PlaceDraft([c / 100 for c in sure], right)
            for each in replies
            for sure, right in each[by]
        ]
        for by in replies[0]
    }
    lengths = [len(next(iter(each.values()))) for each in replies]
    return SimulatedText("recorded replies", joined, begins=np.cumsum(lengths)[:-1].tolist())

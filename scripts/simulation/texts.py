"""Texts as the controller sees them: at each place a draft, and how much of it is right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

RECORDED = Path(__file__).parent / "recorded.json"
FURTHEST = 16  # tokens of a draft
TAKES = 4  # of each invented text
SPREAD = 6.0  # of confidences around the rate; the more, the narrower

FloatArray = np.ndarray[tuple[int], np.dtype[np.float64]]


class Drafter(NamedTuple):
    """A proposer, and the factor by which each of its tokens is less often right than the last."""

    by: str
    falls: float = 1.0


DRAFT_MODEL = Drafter("draft-model")
CHAINED = Drafter("head", 0.88)  # one block, used again for each further token (MTP)
TRAINED = Drafter("head", 0.98)  # trained on its own output (EAGLE-3)
BLOCK = Drafter("block", 0.96)  # all tokens in one pass (DFlash)


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
    prompt: int = 1  # tokens before the first place
    reach: int = FURTHEST  # tokens of a draft

    @property
    def depths(self) -> Sequence[int]:
        """List the depths to compare the controller with: beyond 16 steps of a half at most."""
        steps = [step * 2**power for power in range(4, 9) for step in (1, 1.5)]
        return [*range(FURTHEST), *(int(depth) for depth in [*steps, 512] if depth <= self.reach)]

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
    yield recorded()
    yield from headed()


def headed() -> Iterator[Sequence[SimulatedText]]:
    """List texts drafted by heads, with first tokens as often right as published."""
    for rate in (0.3, 0.6, 0.75, 0.9):
        yield invented(f"chained head {rate:.0%}", [(1500, rate)], CHAINED)
    for rate in (0.75, 0.85):
        yield invented(f"trained chain {rate:.0%}", [(1500, rate)], TRAINED)
    yield invented("block 88%", [(1500, 0.88)], BLOCK)
    yield invented("block 60%", [(1500, 0.6)], BLOCK)
    yield invented("head: 85, 30, 85%", [(1000, 0.85), (500, 0.3), (1000, 0.85)], CHAINED)


def invented(
    name: str,
    stretches: Sequence[tuple[int, float]],
    drafter: Drafter = DRAFT_MODEL,
    takes: int = TAKES,
) -> list[SimulatedText]:
    """Make texts with draft tokens right at known rates, one after the other."""
    rates = np.repeat([rate for _, rate in stretches], [length for length, _ in stretches])
    ends = np.cumsum([length for length, _ in stretches])[:-1].tolist()
    switches = [place for place in ends if len(stretches) < 4]
    return [
        SimulatedText(name, {drafter.by: drafts(rates, take, drafter.falls)}, switches)
        for take in range(takes)
    ]


def drafts(rates: FloatArray, seed: int, falls: float = 1.0) -> list[PlaceDraft]:
    """Draft as a proposer that half knows when it is right."""
    rng = np.random.default_rng(seed)
    ahead = np.append(rates, [rates[-1]] * FURTHEST)
    stretches = []
    for place in range(len(rates)):
        expected = ahead[place : place + FURTHEST] * falls ** np.arange(FURTHEST)
        # Spread around the rate so that confidences tell something, and are calibrated.
        sure = rng.beta(SPREAD * expected + 0.05, SPREAD * (1 - expected) + 0.05)
        hits = rng.random(FURTHEST) < sure
        right = int(np.argmin(hits)) if not hits.all() else FURTHEST
        stretches.append(PlaceDraft(sure.round(3).tolist(), right))
    return stretches


def recorded() -> list[SimulatedText]:
    """Read replies of a real pair (docs/lab/simulation.md), in several orders."""
    replies = [entry["drafts"] for entry in json.loads(RECORDED.read_text(encoding="utf-8"))]
    takes = [np.random.default_rng(take).permutation(len(replies)) for take in range(TAKES)]
    return [one_by_one([replies[at] for at in order]) for order in takes]


def one_by_one(replies: Sequence[Mapping[str, Sequence[tuple[list[int], int]]]]) -> SimulatedText:
    joined = {
        by: [
            PlaceDraft([c / 100 for c in sure], right)
            for reply in replies
            for sure, right in reply[by]
        ]
        for by in replies[0]
    }
    lengths = [len(next(iter(reply.values()))) for reply in replies]
    return SimulatedText("recorded replies", joined, begins=np.cumsum(lengths)[:-1].tolist())

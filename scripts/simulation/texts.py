"""Texts as the controller sees them: at each place, what would be drafted and how much is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).parent / "recorded.json"
FURTHEST = 16  # guesses of a draft


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a proposer would draft at one place: how sure of each, and how many are right."""

    confidences: Sequence[float]
    right: int


@dataclass(frozen=True, slots=True)
class Text:
    name: str
    guesses: Mapping[str, Sequence[Guesses]]  # by proposer, at each place

    @property
    def length(self) -> int:
        return min(map(len, self.guesses.values()))


def texts() -> Iterator[Text]:
    """All that the controller is tried on."""
    for rate in (0.2, 0.5, 0.7, 0.8, 0.9, 0.97):
        yield even(f"right {rate:.0%}", 3000, constant(rate))
    yield even("good, bad, good", 900, lambda at: 0.9 if at // 300 != 1 else 0.15)
    yield even("bad, good, bad", 900, lambda at: 0.9 if at // 300 == 1 else 0.15)
    yield even("in stretches of 40", 3000, lambda at: 0.95 if at // 40 % 2 else 0.3)
    yield from recorded()


def constant(rate: float) -> Callable[[int], float]:
    return lambda at: rate


def even(name: str, length: int, rate: Callable[[int], float]) -> Text:
    """Guesses that are right at a known rate, and whose proposer half knows which."""
    rng = np.random.default_rng(len(name) + length)
    places = []
    for at in range(length):
        expected = np.array([rate(at + ahead) for ahead in range(FURTHEST)])
        # Spread around the rate so that confidences tell something, and are calibrated.
        weight = 6.0
        sure = rng.beta(weight * expected + 0.05, weight * (1 - expected) + 0.05)
        hits = rng.random(FURTHEST) < sure
        right = int(np.argmin(hits)) if not hits.all() else FURTHEST
        places.append(Guesses([float(round(c, 3)) for c in sure], right))
    return Text(name, {"draft-model": places})


def recorded(path: Path = RECORDED) -> Iterator[Text]:
    """Replies of a real pair, recorded by `scripts/simulate record`."""
    for entry in json.loads(path.read_text(encoding="utf-8")) if path.exists() else ():
        yield Text(
            entry["name"],
            {
                by: [Guesses([c / 100 for c in sure], right) for sure, right in places]
                for by, places in entry["guesses"].items()
            },
        )

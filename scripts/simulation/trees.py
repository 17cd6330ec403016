"""Trees of draft tokens beside chains: what several candidates for a place would bring.

A tree drafts the likeliest few tokens for each place and verifies the nodes whose paths are
likeliest (EAGLE-2), all in one batch; a chain drafts one token for each place. Both draft on and
verify as far as pays, and know their chances exactly: what is printed is the most that trees bring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulation.hardware import CURVES, PLAIN, seconds
from simulation.texts import SPREAD

PLACES = 600
DEEPEST, MOST = 8, 4  # tokens of a path, and candidates for a place
WIDEST = 63  # draft tokens verified at once
FLAT = {1: 1.0, 64: 1.1, 128: 1.6}  # of a data centre, with arithmetic to spare up to 64 tokens
HEADS = ((0.6, 0.95), (0.75, 0.98), (0.85, 0.92))  # first tokens right, and how that falls
STEP = 0.06  # of a plain forward, each token of a chain
# Chance of each further candidate where none before it is right: greedy, and at temperature 1.
GREEDY, SAMPLED = (0.45, 0.35, 0.25), (0.2, 0.15, 0.1)

Numbers = NDArray[np.float64]


class TreeGain(NamedTuple):
    """Speeds of the best chain and the best tree of a head; plain decoding is 1."""

    hardware: str
    rate: float
    chain: float
    greedy: float
    sampled: float

    @property
    def line(self) -> str:
        gains = "".join(f"{tree / self.chain - 1:+10.1%}" for tree in (self.greedy, self.sampled))
        return f"{self.hardware:14}{self.rate:6.0%}{self.chain:8.2f}{gains}"


HEADING = f"{'hardware':14}{'right':>6}{'chain':>8}{'tree':>10}{'sampled':>10}"


class Head(NamedTuple):
    first: float  # how often its first tokens are right
    falls: float  # by that factor with each further token
    branches: int
    others: tuple[float, ...]  # chances of the further candidates
    deepest: int = DEEPEST

    def drafted(self, forwards: Numbers, speed: float) -> tuple[Numbers, Numbers]:
        """Return the chances of the nodes at each place, likeliest first, and what they cost."""
        rng = np.random.default_rng(0)
        frontier, cost = np.ones((PLACES, 1)), np.zeros(PLACES)
        trees = []
        for level in range(self.deepest):
            mean = self.first * self.falls**level
            step = STEP * forwards[frontier.shape[1] - 1]
            goes_on = frontier.sum(axis=1) * mean > speed * step
            cost += step * goes_on
            sure = rng.beta(SPREAD * mean, SPREAD * (1 - mean), (PLACES, MOST))
            sure = sure[:, : frontier.shape[1]]
            nodes = (frontier * goes_on[:, None])[:, :, None] * self._candidates(sure)
            nodes = -np.sort(-nodes.reshape(PLACES, -1), axis=1)
            trees.append(nodes)
            frontier = nodes[:, : self.branches]
        return -np.sort(-np.concatenate(trees, axis=1), axis=1)[:, :WIDEST], cost

    def _candidates(self, sure: Numbers) -> Numbers:
        """Share out what the likeliest token leaves among the next ones."""
        chances, left = [sure], 1 - sure
        for share in self.others[: self.branches - 1]:
            chances.append(share * left)
            left = left - chances[-1]
        return np.stack(chances, axis=-1)

    def speed(self, forwards: Numbers) -> float:
        """Find the tokens a plain forward's time, if at each place the best width is verified."""
        speed = 1.0
        for _ in range(5):
            nodes, drafting = self.drafted(forwards, speed)
            won = np.cumsum(np.insert(nodes, 0, 1.0, axis=1), axis=1)
            width = np.argmax(won - speed * forwards[: won.shape[1]], axis=1)
            taken = forwards[width] + drafting
            speed = max(float(won[np.arange(PLACES), width].sum() / taken.sum()), 1.0)
        return speed


def tree_gain(hardware: str, curve: Mapping[int, float], first: float, falls: float) -> TreeGain:
    forwards = np.array([seconds(curve, 1 + n) / PLAIN for n in range(WIDEST + 1)])
    chain, greedy, sampled = (
        max(
            Head(first, falls, branches, others, deepest).speed(forwards)
            for branches in range(1, most + 1)
            for deepest in range(1, DEEPEST + 1)
        )
        for others, most in (((), 1), (GREEDY, MOST), (SAMPLED, MOST))
    )
    return TreeGain(hardware, first, chain, greedy, sampled)


def tree_gains() -> Iterator[TreeGain]:
    for hardware, curve in {**CURVES, "flat to 64": FLAT}.items():
        for first, falls in HEADS:
            yield tree_gain(hardware, curve, first, falls)


def main() -> None:
    print(HEADING)
    for gain in tree_gains():
        print(gain.line)

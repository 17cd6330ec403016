"""What a head promises: tokens a second by this machine's costs, and what more steps would add."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from localspec.interfaces.costs import Batch, Costs

PROPOSER = "eagle3"
ONE = Batch(1)
LEAST = 4  # measurements by which a trend is seen: those of the later half of the steps
LEAST_STEPS = 1000  # before which a pause in the trend says little
LITTLE = 0.01  # of the speed, that twice the steps must promise to add


class HeldOut(NamedTuple):
    """A measurement on texts that are not learned from."""

    step: int
    greedy: tuple[float, ...]  # the chance of each token of a draft, all before it being accepted
    sampled: tuple[float, ...]  # the same at temperature 1
    speedup: float  # expected tokens a second, plain decoding being 1; 0: not measured


def speedup(costs: Costs, chances: Sequence[float]) -> float:
    """Compute the speed at the draft length that pays most, or costs least.

    Costs measured on a busy machine may say that none pays, and a head learns all the same.
    """
    drafting = costs.drafting(PROPOSER, 1)
    assert drafting is not None
    forwards = costs.stretch(ONE, 1, len(chances) + 1)
    accepted: Iterable[float] = accumulate(accumulate(chances, mul))
    tokens = [1.0 + count for count in accepted]
    rounds = [forwards[n] + drafting.at(n) for n in range(1, len(forwards))]
    speeds = [count / seconds for count, seconds in zip(tokens, rounds, strict=True)]
    return forwards[0] * max(speeds)


def twice_as_far(measured: Sequence[HeldOut]) -> float | None:
    """Foretell what twice the steps add to the speed, by its trend over the steps' logarithm."""
    recent = [held_out for held_out in measured if 2 * held_out.step >= measured[-1].step]
    if len(recent) < LEAST or measured[-1].step < LEAST_STEPS:
        return None
    logs = [math.log(held_out.step) for held_out in recent]
    speeds = [held_out.speedup for held_out in recent]
    middle, mean = sum(logs) / len(logs), sum(speeds) / len(speeds)
    spread = sum((log - middle) ** 2 for log in logs)
    pairs = zip(logs, speeds, strict=True)
    return math.log(2) * sum((log - middle) * (speed - mean) for log, speed in pairs) / spread


def verdict(measured: Sequence[HeldOut]) -> str:
    """Say why no more is to be gained; empty: go on."""
    added = twice_as_far(measured)
    if added is None or added >= LITTLE * measured[-1].speedup:
        return ""
    return f"twice the steps would add {max(added, 0.0) / measured[-1].speedup:.1%} of speed"

"""Pearson's chi-square test: do counts follow the laws they are said to follow?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.sampling.distribution import Distribution

DUE = 5  # expected counts below are taken together
IMPOSSIBLE = 1e9  # the statistic of a token that the law does not have


@dataclass(frozen=True, slots=True)
class Sample:
    """How often each token came up where all of them should follow one law."""

    law: Distribution
    counts: Counter[int]


@dataclass(frozen=True, slots=True)
class Fit:
    statistic: float
    freedom: int  # 0: the law is so certain, or the sample so small, that nothing was tested
    p: float  # how often chance alone would deviate as much or more


def fit(samples: Sequence[Sample]) -> Fit:
    """Hold several samples, each with a law of its own, against these laws at once."""
    parts = [_part(sample) for sample in samples]
    statistic = sum(value for value, _ in parts)
    freedom = sum(cells - 1 for _, cells in parts)
    return Fit(statistic, freedom, survival(statistic, freedom))


def _part(sample: Sample) -> tuple[float, int]:
    """The statistic of one sample, and the number of cells it has."""
    law, total = sample.law, sample.counts.total()
    seen = np.array([sample.counts[token] for token in law.ids.tolist()], np.float64)
    if seen[law.probs > 0].sum() < total:
        return IMPOSSIBLE, 2
    due = law.probs * total
    order = due.argsort()
    rare = int(due[order].searchsorted(DUE))
    if 0 < due[order[:rare]].sum() < DUE:
        rare += 1
    cells = [order[:rare], *order[rare:, None]]
    pairs = [(seen[each].sum(), due[each].sum()) for each in cells if due[each].sum() > 0]
    return float(sum((a - b) ** 2 / b for a, b in pairs)), len(pairs)


def survival(statistic: float, freedom: int) -> float:
    """The chance that chi-square is at least so high: Q(freedom / 2, statistic / 2).

    The regularised incomplete gamma function at half a whole number is a finite sum, for
    Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1), from Q(1/2, x) = erfc(sqrt x), Q(1, x) = e^-x.
    """
    if freedom == 0 or statistic <= 0:
        return 1.0
    x = statistic / 2
    p = math.erfc(math.sqrt(x)) if freedom % 2 else math.exp(-x)
    for twice in range(2 - freedom % 2, freedom, 2):
        a = twice / 2
        p += math.exp(a * math.log(x) - x - math.lgamma(a + 1))
    return min(p, 1.0)

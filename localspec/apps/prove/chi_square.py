"""Pearson's chi-square test of whether counts follow the distributions claimed for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.interfaces.distribution import Distribution

DUE = 5  # expected counts below are taken together
IMPOSSIBLE = 1e9  # the statistic of a token that the distribution does not have


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts of tokens that should all follow one distribution."""

    distribution: Distribution
    counts: Counter[int]


@dataclass(frozen=True, slots=True)
class Fit:
    statistic: float
    freedom: int  # 0: nothing was tested, of a certain distribution or a small sample
    p: float  # how often chance alone would deviate as much or more


def fit(samples: Sequence[Observed]) -> Fit:
    """Test several samples at once, each against its own distribution."""
    parts = [_part(sample) for sample in samples]
    statistic = sum(value for value, _ in parts)
    freedom = sum(cells - 1 for _, cells in parts)
    return Fit(statistic, freedom, survival(statistic, freedom))


def _part(sample: Observed) -> tuple[float, int]:
    """Compute the statistic of one sample, and the number of cells it has."""
    distribution, total = sample.distribution, sample.counts.total()
    seen = np.array([sample.counts[token] for token in distribution.ids.tolist()], np.float64)
    if seen[distribution.probs > 0].sum() < total:
        return IMPOSSIBLE, 2
    due = distribution.probs * total
    order = due.argsort()
    rare = int(due[order].searchsorted(DUE))
    if 0 < due[order[:rare]].sum() < DUE:
        rare += 1
    cells = [order[:rare], *order[rare:, None]]
    pairs = [(seen[cell].sum(), due[cell].sum()) for cell in cells if due[cell].sum() > 0]
    return float(sum((a - b) ** 2 / b for a, b in pairs)), len(pairs)


def survival(statistic: float, freedom: int) -> float:
    """Compute the chance that chi-square is at least so high: Q(freedom / 2, statistic / 2).

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

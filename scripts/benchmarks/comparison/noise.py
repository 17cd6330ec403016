"""Noise of a comparison: how far ratios of the same two sides differ from round to round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.apps.bench.verdict import standard_errors

SMALLEST = 1e-9


def half_width(mine: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float | None:
    """Return half the 95% interval of the ratio of two sides, as a share; None by one round alone.

    Both are seconds a token, section by section, in each the rounds. A section is compared with
    itself in another round alone: tasks may differ, the machine's noise is what is left.
    """
    ratios = np.log(np.maximum(mine, SMALLEST) / np.maximum(theirs, SMALLEST))
    sections, rounds = ratios.shape
    freedom = sections * (rounds - 1)
    if not freedom:
        return None
    within = ratios - ratios.mean(axis=1, keepdims=True)
    deviation = np.sqrt((within**2).sum() / freedom)
    weights = np.asarray(theirs).mean(axis=1)
    share = np.sqrt(((weights / weights.sum()) ** 2).sum() / rounds)
    return float(np.expm1(standard_errors(freedom) * deviation * share))

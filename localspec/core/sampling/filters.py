"""Turn a row of logits into the distribution that a token is sampled from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import LogitRows, Logits, RankedLogits, best
from localspec.core.sampling.cuts import CUTS, Candidates
from localspec.core.sampling.highest import Ids, all_ids, reaching_top, top
from localspec.core.sampling.order import OF_TEXT
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.distribution import Distribution

MAX_LISTED = 128  # tokens that lists take less time for than arrays, beside a model
FIRST_CANDIDATES = 64  # looked at first for top-p; eight times as many while they are too few

Floats = NDArray[np.float64]
F = TypeVar("F", np.float32, np.float64)


def best_of_rows(logits: LogitRows) -> Callable[[int], int]:
    """Return a function that returns the most likely token of a row."""
    return logits.best if isinstance(logits, RankedLogits) else lambda at: best(logits[at])


def distribution(sampling: Sampling, logits: Logits) -> Distribution:
    """Return the distribution of the next token; bias and penalties are in the logits already.

    Each branch applies all filters that are left: their order is for speed.
    """
    likeliest, steps = best(logits), sampling.steps
    if steps.greedy:
        return Distribution.certain(likeliest)
    if not steps.simple:
        return _cut(sampling, logits)
    if 0 < sampling.top_k < len(logits):
        return _top_k(sampling, logits)
    if sampling.top_p < 1:
        return Distribution(*_nucleus(sampling, logits))
    return Distribution(*_everything(sampling, logits, float(logits[likeliest])))


def _cut(sampling: Sampling, logits: Logits) -> Distribution:
    """Apply the cuts that look at logits alone."""
    candidates = Candidates.of(logits)
    for name in sampling.steps.cuts:
        if name in CUTS and name not in OF_TEXT:
            candidates = CUTS[name](candidates, sampling)
    return candidates.distribution


def _top_k(sampling: Sampling, logits: Logits) -> Distribution:
    """Cut to the k most likely, and these by top-p and min-p.

    Where k is small, in lists: beside a model each call of numpy's takes some 6 us.
    """
    if sampling.top_k > MAX_LISTED:
        ids = top(logits, sampling.top_k)
        weights = _weights(sampling, logits[ids].astype(np.float64))
        return Distribution(*_prefix(sampling, ids, weights, float(weights.sum())))
    reaching = reaching_top(logits, sampling.top_k)
    names, values = reaching.tolist(), logits[reaching].tolist()
    order = sorted(range(len(names)), key=values.__getitem__, reverse=True)[: sampling.top_k]
    best, temperature = values[order[0]], sampling.temperature
    likely = [(names[at], math.exp((values[at] - best) / temperature)) for at in order]
    most, before = sampling.top_p * sum(weight for _, weight in likely), 0.0
    chosen: list[tuple[int, float]] = []
    for candidate in likely:
        if chosen and not (before < most and candidate[1] >= sampling.min_p and candidate[1] > 0):
            break
        chosen.append(candidate)
        before += candidate[1]
    chosen.sort()
    return Distribution(np.array([at for at, _ in chosen]), np.array([w for _, w in chosen]))


def _nucleus(sampling: Sampling, logits: Logits) -> tuple[Ids, Floats]:
    total = float(_weights(sampling, logits).sum())
    size = FIRST_CANDIDATES
    while True:
        ids = top(logits, size)
        weights = _weights(sampling, logits[ids].astype(np.float64))
        if size >= len(logits) or weights.sum() >= sampling.top_p * total:
            return _prefix(sampling, ids, weights, total)
        size *= 8


def _everything(
    sampling: Sampling, logits: Logits, best: float
) -> tuple[Ids, NDArray[np.floating]]:
    if sampling.min_p > 0:
        floor = best + sampling.temperature * np.log(sampling.min_p)
        ids = np.flatnonzero(logits >= floor)
        return ids, _weights(sampling, logits[ids].astype(np.float64))
    return all_ids(len(logits)), _weights(sampling, logits, best)


def _weights(sampling: Sampling, logits: NDArray[F], best: float | None = None) -> NDArray[F]:
    """Compute weights relative to the highest logit given, which weighs 1."""
    weights: NDArray[F] = logits - (logits.max() if best is None else logits.dtype.type(best))
    if sampling.temperature != 1:
        weights /= sampling.temperature
    np.exp(weights, out=weights)
    return weights


def _prefix(sampling: Sampling, ids: Ids, weights: Floats, total: float) -> tuple[Ids, Floats]:
    """Cut most-likely-first candidates by top-p and min-p; return them by ascending id."""
    before = weights.cumsum() - weights
    keep = (before < sampling.top_p * total) & (weights >= sampling.min_p * weights[0])
    keep &= weights > 0
    keep[0] = True
    ids, weights = ids[keep], weights[keep]
    order = ids.argsort()
    return ids[order], weights[order]

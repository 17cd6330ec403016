"""Samplers that leave tokens out or scale their logits: each a function of what is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localspec.core.sampling.highest import Ids, all_ids, top
from localspec.core.sampling.order import MIN_TEMPERATURE
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.distribution import Distribution

# A token so far below the highest logit is forbidden by a bias of -1000. Logits of models span some
# 100, and llama.cpp counts a token with a bias of -100.
MAX_SPAN = 500.0
FIRST_LOOKED_AT = 64  # tokens that are ranked first; eight times as many while that is too few

Floats = NDArray[np.floating]


class Candidates(NamedTuple):
    """The tokens that are left, and their logits."""

    ids: Ids  # ascending
    logits: Floats  # -inf for tokens that a grammar forbids
    size: int  # as llama.cpp counts them: those outside of top-n-sigma are among them

    @staticmethod
    def of(row: Floats) -> Candidates:
        return Candidates(all_ids(len(row)), row, len(row))

    @property
    def weights(self) -> Floats:
        """The weights relative to the likeliest token, which weighs 1."""
        weights: Floats = np.exp(self.logits - self.logits.max())
        return weights

    @property
    def probs(self) -> Floats:
        weights = self.weights
        probs: Floats = weights / weights.sum(dtype=np.float64)
        return probs

    @property
    def distribution(self) -> Distribution:
        return Distribution(self.ids, self.weights)

    def keep(self, places: NDArray[np.bool_] | Ids, size: int | None = None) -> Candidates:
        """Keep the tokens at these places, which ascend."""
        ids = self.ids[places]
        logits = self.logits[places].astype(np.float64)
        return Candidates(ids, logits, len(ids) if size is None else size)


def temperature(candidates: Candidates, sampling: Sampling) -> Candidates:
    """Divide by the temperature; a dynamic one follows the entropy, as far as there could be."""
    if not sampling.dynatemp_range or sampling.mirostat:
        return divide(candidates, sampling.temperature)
    if candidates.size < 2:
        return candidates
    lowest = max(sampling.temperature - sampling.dynatemp_range, 0.0)
    highest = sampling.temperature + sampling.dynatemp_range
    share = min(max(entropy(candidates.probs) / math.log(candidates.size), 0.0), 1.0)
    return divide(candidates, lowest + (highest - lowest) * share**sampling.dynatemp_exponent)


def divide(candidates: Candidates, by: float) -> Candidates:
    if by < MIN_TEMPERATURE:
        return likeliest(candidates)
    return candidates._replace(logits=candidates.logits / by)


def likeliest(candidates: Candidates) -> Candidates:
    return candidates.keep(np.array([candidates.logits.argmax()]))


def entropy(probs: Floats) -> float:
    present = probs[probs > 0]
    return -float((present * np.log(present)).sum(dtype=np.float64))


def top_k(candidates: Candidates, sampling: Sampling) -> Candidates:
    size = min(candidates.size, sampling.top_k)
    if sampling.top_k >= len(candidates.ids):
        return candidates._replace(size=size)
    return candidates.keep(np.sort(top(candidates.logits, sampling.top_k)), size)


def top_p(candidates: Candidates, sampling: Sampling) -> Candidates:
    return candidates.keep(first_of(candidates.logits, candidates.weights, sampling.top_p))


def min_p(candidates: Candidates, sampling: Sampling) -> Candidates:
    return candidates.keep(candidates.logits >= candidates.logits.max() + math.log(sampling.min_p))


def typical(candidates: Candidates, sampling: Sampling) -> Candidates:
    """Keep the tokens whose surprise is nearest to the expected one (Meister et al., 2022)."""
    probs = candidates.probs
    with np.errstate(divide="ignore"):
        distance = np.abs(-np.log(probs) - entropy(probs))
    return candidates.keep(first_of(-distance, probs, sampling.typical))


def top_n_sigma(candidates: Candidates, sampling: Sampling) -> Candidates:
    """Keep the logits within n standard deviations of the highest (Tang et al., 2024)."""
    highest = candidates.logits.max()
    present = candidates.logits[candidates.logits > highest - MAX_SPAN]
    floor = highest - sampling.top_n_sigma * present.std(dtype=np.float64)
    return candidates.keep(candidates.logits >= floor, candidates.size)


def xtc(candidates: Candidates, sampling: Sampling) -> Candidates:
    """Leave out all tokens that reach the threshold, but the least likely of these."""
    probs = candidates.probs
    above = np.flatnonzero(probs >= sampling.xtc_threshold)
    if len(above) < 2:
        return candidates
    last = above[np.flatnonzero(probs[above] == probs[above].min())[-1]]
    mask = np.ones(len(probs), np.bool_)
    mask[above] = False
    mask[last] = True
    return candidates.keep(mask, candidates.size - len(above) + 1)


def first_of(scores: Floats, weights: Floats, share: float) -> Ids:
    """Return the places of the highest scores, as few as have this share of all weights."""
    goal, count = share * weights.sum(dtype=np.float64), FIRST_LOOKED_AT
    while True:
        places = top(scores, count)
        ranked = weights[places].astype(np.float64)
        before = ranked.cumsum() - ranked
        if count >= len(scores) or before[-1] + ranked[-1] >= goal:
            return np.sort(places[before < goal])
        count *= 8


CUTS: Mapping[str, Callable[[Candidates, Sampling], Candidates]] = {
    "top_n_sigma": top_n_sigma,
    "temperature": temperature,
    "top_k": top_k,
    "typ_p": typical,
    "top_p": top_p,
    "min_p": min_p,
    "xtc": xtc,
    "infill": lambda candidates, _: likeliest(candidates),
}

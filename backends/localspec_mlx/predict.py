"""Prediction, on the device, of the tokens that the core will choose, so that it need not wait.

The core's own choice, by the same dice, decides. Where they differ, what was worked out ahead is
thrown away: by rounding about once in a million tokens, and in 6 of 1,000 drafts at temperature 1
without filters, which the core draws from likely tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from localspec.interfaces.dice import FIRST, SECOND, SPREAD
from localspec.interfaces.token_source import PlainSampling, TokenSource


@dataclass(frozen=True, slots=True)
class Choice:
    """The way in which one row's next token will be chosen."""

    sampler: TokenSource
    position: int
    later: mx.array | None = None  # positions later, a number that only the device knows
    most: int = 0  # the largest that `later` can be

    def keys(self) -> mx.array:
        """Return what the random numbers of its position are made from."""
        dice, places = self.sampler.dice, range(self.position, self.position + self.most + 1)
        keys = mx.array([dice.keys(place) for place in places], mx.uint32)
        return keys[0] if self.later is None else keys[self.later]


def predict(logits: mx.array, choices: Sequence[Choice]) -> mx.array:
    """Choose a token for each row of logits [rows, vocabulary]."""
    if all(choice.sampler.sampling.greedy for choice in choices):
        return mx.argmax(logits, axis=-1)
    return mx.stack([_choose(row, choice) for row, choice in zip(logits, choices, strict=True)])


def _choose(logits: mx.array, choice: Choice) -> mx.array:
    sampling = choice.sampler.sampling
    if sampling.greedy:
        return mx.argmax(logits)
    weights = mx.exp((logits - logits.max()) / sampling.temperature)
    weights = mx.where(weights >= _least(weights, sampling), weights, 0)
    return mx.argmin(_waits(choice.keys(), len(logits)) / weights)


def _waits(keys: mx.array, count: int) -> mx.array:
    """Compute how long each token waits, as `Dice` does."""
    upper, lower = _mixed(count, keys[0], keys[1]), _mixed(count, keys[2], keys[3])
    fraction = (upper.astype(mx.float32) + lower.astype(mx.float32) * 2.0**-32) * 2.0**-32
    return -mx.log1p(-fraction)


def _mixed(count: int, first: mx.array, second: mx.array) -> mx.array:
    x = mx.arange(count, dtype=mx.uint32) * SPREAD + first
    x = (x ^ (x >> 16)) * FIRST
    x = (x ^ (x >> 13) ^ second) * SECOND
    return x ^ (x >> 16)


def _least(weights: mx.array, sampling: PlainSampling) -> mx.array | float:
    """Find the weight of the least likely token that top-k, top-p and min-p leave in."""
    if 0 < sampling.top_k < len(weights):
        best = -mx.sort(-mx.topk(weights, sampling.top_k))
    elif sampling.top_p < 1:
        best = -mx.sort(-weights)
    else:
        return sampling.min_p
    keep = (best.cumsum() - best < sampling.top_p * best.sum()) & (best >= sampling.min_p)
    return mx.where(keep, best, mx.inf).min()

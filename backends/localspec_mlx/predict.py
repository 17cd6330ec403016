"""Prediction, on the device, of the tokens that the core will choose, so that it need not wait.

The core's own choice, by the same dice, decides. Where they differ, what was worked out ahead is
thrown away: by rounding about once in a million tokens, and in 6 of 1,000 drafts at temperature 1
without filters, which the core draws from likely tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from localspec.interfaces.dice import FIRST, SECOND, SPREAD
from localspec.interfaces.logit_shift import LogitShift, shift_of
from localspec.interfaces.token_source import PlainSampling, TokenSource


@dataclass(frozen=True, slots=True)
class Choice:
    """The way in which one row's next token will be chosen, after what its sampler has emitted.

    drafted: tokens after that
    newer: arrays with a token after those for each of several texts, of which it is one `column`
    """

    sampler: TokenSource
    position: int
    drafted: Sequence[int] = ()
    newer: Sequence[mx.array] = ()
    column: int = 0
    later: mx.array | None = None  # positions later, a number that only the device knows
    most: int = 0  # the largest that `later` can be

    def keys(self) -> mx.array:
        """Return what the random numbers of its position are made from."""
        dice, places = self.sampler.dice, range(self.position, self.position + self.most + 1)
        keys = mx.array([dice.keys(place) for place in places], mx.uint32)
        return keys[0] if self.later is None else keys[self.later]


def predict(logits: mx.array, choices: Sequence[Choice]) -> mx.array:
    """Choose a token for each row of logits [rows, vocabulary]."""
    shifts = [shift_of(choice.sampler, choice.drafted, len(choice.newer)) for choice in choices]
    if all(choice.sampler.sampling.greedy for choice in choices) and not any(shifts):
        return mx.argmax(logits, axis=-1)
    rows = zip(logits, choices, shifts, strict=True)
    return mx.stack(
        [_choose(_shifted(row, choice, by) if by else row, choice) for row, choice, by in rows]
    )


def _shifted(logits: mx.array, choice: Choice, shift: LogitShift) -> mx.array:
    """Change a row of logits, as the core does; tokens that only the device knows count as well."""
    within = shift.ids < len(logits)  # a vocabulary may have more tokens; MLX checks no bounds
    if within.any():
        ids = mx.array(shift.ids[within].astype(np.int32))
        logits = logits.at[ids].add(mx.array(shift.bias[within]))
    if not shift.penalises:
        return logits
    seen, counts = (mx.array(part.astype(np.int32)) for part in (shift.seen, shift.counts))
    if choice.newer:
        newest = choice.newer[-shift.window :] if shift.window > 0 else choice.newer
        newer = mx.stack(list(newest))[:, choice.column].astype(seen.dtype)
        counts = mx.concatenate([counts, ((newer[:, None] == seen) * counts).sum(1)])
        seen = mx.concatenate([seen, newer])
        counts = counts + (seen[:, None] == newer).sum(1)
    old = logits[seen]
    repeated = mx.where(old > 0, old / shift.repetition, old * shift.repetition)
    penalty = shift.presence * (counts > 0) + shift.frequency * counts
    return mx.put_along_axis(logits, seen, repeated - penalty, 0)


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

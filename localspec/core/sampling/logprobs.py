"""Log-probabilities of emitted tokens, by the target's raw logits or as they were sampled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from localspec.base.tokens import LogitRows
from localspec.core.sampling.highest import top
from localspec.interfaces.distribution import Distribution


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token: int
    logprob: float


@dataclass(frozen=True, slots=True)
class EmittedLogprob:
    """An emitted token, and the most likely ones in its place."""

    token: int
    logprob: float
    top: tuple[TokenLogprob, ...]
    judged: tuple[float, ...] = ()  # of the tokens that were asked about, in their order


def logprobs(
    logits: LogitRows, tokens: Sequence[int], alternatives: int, judged: Sequence[int] = ()
) -> Iterator[EmittedLogprob]:
    """Compute the log-probability of each token, of the likeliest others, and of judged ones."""
    for row, token in zip(logits, tokens, strict=False):
        highest = float(row.max())
        total = highest + float(np.log(np.exp(row - highest).sum(dtype=np.float64)))
        best = top(row, alternatives).tolist() if alternatives else []
        yield EmittedLogprob(
            token,
            float(row[token]) - total,
            tuple(
                TokenLogprob(alternative, float(row[alternative]) - total) for alternative in best
            ),
            tuple(float(row[token]) - total for token in judged),
        )


def sampled_logprobs(
    distributions: Sequence[Distribution], tokens: Sequence[int], alternatives: int
) -> Iterator[EmittedLogprob]:
    """Compute the same by the distributions that the tokens were drawn from."""
    for distribution, token in zip(distributions, tokens, strict=False):
        probs = distribution.probs
        best = [at for at in np.lexsort((distribution.ids, -probs))[:alternatives] if probs[at] > 0]
        yield EmittedLogprob(
            token,
            math.log(distribution.prob(token)),
            tuple(
                TokenLogprob(int(distribution.ids[at]), math.log(float(probs[at]))) for at in best
            ),
        )

"""Guessed tokens, and the distributions they were drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.sampling.distribution import Distribution
from localspec.tokens import NONE, Tokens


@dataclass(slots=True)  # not frozen, which makes it three times as dear; nobody changes one
class Draft:
    """`sources[i]` is the distribution `tokens[i]` was drawn from; None: looked up, certain."""

    tokens: Tokens
    by: str  # who guessed, for the figures
    sources: tuple[Distribution, ...] | None = None
    confidences: tuple[float, ...] = ()  # how likely each guess seemed to its proposer
    rests: bool = False  # next time nothing is likely to be guessed, either

    def __len__(self) -> int:
        return len(self.tokens)


EMPTY = Draft(NONE, by="nobody")
RESTING = Draft(NONE, by="nobody", rests=True)

Pays = Callable[[Sequence[float]], bool]


def always(confidences: Sequence[float]) -> bool:  # noqa: ARG001
    """One more guess pays, whatever the confidences of those before."""
    return True


def likely(floor: float) -> Pays:
    """One more guess pays while the chance that all are right is not under a floor."""
    return lambda confidences: math.prod(confidences) >= floor

"""Draft tokens, and the distributions they were sampled from."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.base.tokens import NONE, Tokens
from localspec.interfaces.distribution import Distribution


@dataclass(slots=True)  # not frozen, which makes it three times as slow; it is never changed
class Draft:
    """`sources[i]` is the distribution that `tokens[i]` was sampled from; None: looked up."""

    tokens: Tokens
    by: str  # the proposer, for the figures
    sources: tuple[Distribution, ...] | None = None
    confidences: tuple[float, ...] = ()  # how likely each token seemed to its proposer

    def __len__(self) -> int:
        return len(self.tokens)


EMPTY = Draft(NONE, by="nobody")

"""Draft tokens, and the distributions they were sampled from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localspec.sampling.distribution import Distribution
from localspec.tokens import NONE, Tokens

Watch = Callable[[Tokens], bool]  # told how the text went on


@dataclass(slots=True)  # not frozen, which makes it three times as slow; it is never changed
class Draft:
    """`sources[i]` is the distribution that `tokens[i]` was sampled from; None: looked up."""

    tokens: Tokens
    by: str  # the proposer, for the figures
    sources: tuple[Distribution, ...] | None = None
    confidences: tuple[float, ...] = ()  # how likely each token seemed to its proposer
    rests: int = 0  # how many of the next drafts are likely to be empty, too
    watch: Watch | None = None  # tells whether those after them are worth asking for

    def __len__(self) -> int:
        return len(self.tokens)


NEVER = 1 << 16  # rounds, where nothing will ever be drafted
EMPTY = Draft(NONE, by="nobody")
RESTING = Draft(NONE, by="nobody", rests=NEVER)

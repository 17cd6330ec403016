"""Draft tokens."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.base.tokens import NONE, Tokens


@dataclass(slots=True)  # not frozen, which makes it three times as slow; it is never changed
class Draft:
    tokens: Tokens
    by: str  # the proposer, for the figures
    confidences: tuple[float, ...] = ()  # in each token, if those before are right
    steps: int = 0  # that it took, where they were more than its tokens

    def __len__(self) -> int:
        return len(self.tokens)


EMPTY = Draft(NONE, by="nobody")

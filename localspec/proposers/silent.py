"""Draft nothing: plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.draft import RESTING, Draft
from localspec.proposer import Ask


class Silent:
    """Passes on every ask."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [RESTING for _ in asks]

    def release(self, slot: int) -> None:
        pass

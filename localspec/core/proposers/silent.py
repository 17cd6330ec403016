"""Draft nothing: the proposer of an engine that has no other."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import ALWAYS_QUIET, Ask, Quiet


class Silent:
    """Passes on every ask."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [EMPTY for _ in asks]

    def release(self, slot: int) -> None:
        pass

    def quiet(self, ask: Ask) -> Quiet:
        return ALWAYS_QUIET

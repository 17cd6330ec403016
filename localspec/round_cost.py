"""What a round cost, as proposers learn it."""

from __future__ import annotations

from typing import NamedTuple


class RoundCost(NamedTuple):
    """The cost of a round, or of each of several alike.

    If it read prompt tokens or pictures, it teaches nothing about drafts.
    """

    rows: int
    tokens: int
    emitted: int
    seconds: float
    reads: bool
    held: int = 0  # tokens that the rows hold, together
    rounds: int = 1  # that took so much each, without drafts

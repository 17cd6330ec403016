"""Estimates the speedup of a reply over plain decoding, by measured costs."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.control.costs import Costs
from localspec.engine.figures import PositionCounts, Speculation


def gain(costs: Costs, found: Speculation) -> float | None:
    """Its tokens one by one, over its rounds; what the machine is busy with slows down both."""
    round_ = costs.target(1)
    checking = sum(count * round_.at(1 + size) for size, count in found.depths.items())
    drafting = sum(drafted(costs, by, guesses) for by, guesses in found.guesses.items())
    tokens = found.rounds + found.accepted
    return tokens * round_.at(1) / (checking + drafting) if tokens else None


def drafted(costs: Costs, by: str, guesses: Sequence[PositionCounts]) -> float:
    """Seconds that somebody's drafts took, all of them as long as they were on average."""
    curve, count = costs.drafting(by, 1), guesses[0].drafted
    if curve is None:
        return 0.0
    return count * curve.at(round(sum(each.drafted for each in guesses) / count))

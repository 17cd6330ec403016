"""Estimates the speedup of a reply over plain decoding, by measured costs."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.core.engine.figures import PositionCounts, Speculation
from localspec.interfaces.costs import Batch, Costs

MIN_PLAIN = 24  # plain rounds to have seen: before, only the calibration says what one takes


def gain(costs: Costs, speculation: Speculation) -> float | None:
    """Divide the cost of its tokens one by one by the cost of its rounds.

    Costs are recent ones: whatever else keeps the machine busy slows down both. A calibration
    alone is no witness: one on a busy machine made 1.48 times plain decoding look like 2.07.
    """
    if costs.plain_rounds < MIN_PLAIN:
        return None
    alone = Batch(1)
    checking = sum(count * costs.at(alone, 1 + size) for size, count in speculation.depths.items())
    drafting = sum(drafting_seconds(costs, *drafts) for drafts in speculation.positions.items())
    tokens = speculation.rounds + speculation.accepted
    return tokens * costs.at(alone, 1) / (checking + drafting) if tokens else None


def drafting_seconds(costs: Costs, by: str, guesses: Sequence[PositionCounts]) -> float:
    """Estimate the seconds of a proposer's drafts, each as long as they were on average."""
    curve, count = costs.drafting(by, 1), guesses[0].drafted
    if curve is None:
        return 0.0
    return count * curve.at(round(sum(position.drafted for position in guesses) / count))

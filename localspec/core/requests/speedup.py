"""Estimates what drafts won and lost, by measured costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from localspec.core.decoding.turn import Outcome
from localspec.core.requests.figures import PositionCounts, Speculation
from localspec.interfaces.costs import Batch, Costs

MIN_PLAIN = 24  # plain rounds to have seen: before, only the calibration says what one takes


def gain(costs: Costs, speculation: Speculation) -> float | None:
    """Divide the cost of a reply's tokens one by one by the cost of its rounds.

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


def with_waste(costs: Costs, outcomes: list[Outcome]) -> list[Outcome]:
    """Add what a round would have saved, had each draft ended where it was right."""
    drafting = Counter(outcome.draft.by for outcome in outcomes if len(outcome.draft))
    rejected = sum(len(outcome.draft) - outcome.accepted for outcome in outcomes)
    if not rejected:
        return outcomes
    rows = len(outcomes)
    tokens = sum(outcome.turn.feed + len(outcome.draft) for outcome in outcomes)
    held = sum(outcome.turn.generation.cached for outcome in outcomes)
    batch = Batch(rows, held, held / rows)
    verifying = costs.at(batch, tokens) - costs.at(batch, tokens - rejected)
    return [
        outcome._replace(
            wasted_seconds=verifying * (len(outcome.draft) - outcome.accepted) / rejected
            + drafted_in_vain(costs, outcome, drafting[outcome.draft.by])
        )
        for outcome in outcomes
    ]


def drafted_in_vain(costs: Costs, outcome: Outcome, rows: int) -> float:
    """Estimate a text's share of drafting the tokens that were rejected, for so many at once."""
    size, right = len(outcome.draft), outcome.accepted
    curve = costs.drafting(outcome.draft.by, rows) if right < size else None
    if curve is None:
        return 0.0
    return (curve.at(size) - (curve.at(right) if right else 0.0)) / rows

"""Several rounds of plain decoding in a row, with nothing but sampling between them.

A forward evicts our code and data from the processor's caches. Work between two forwards then takes
ten times as long as in a loop of its own: 0.3 to 0.6 ms beside 9 ms for a token (SmolLM2-135M in
Q8_0 on two cores).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localspec.backend import Model
from localspec.decoding.round import Outcome, Turn
from localspec.decoding.verify import settle
from localspec.draft import RESTING

Hurried = Callable[[], bool]  # whether something waits that cannot wait for long


def more_rounds(
    target: Model, outcomes: Sequence[Outcome], most: int, hurried: Hurried
) -> list[Outcome]:
    """Run up to `most` further rounds for all; return the outcomes of all rounds together.

    They end early where a sequence ends, or where something is wrong: the next round meets the
    error again, and tells it to those that it concerns.
    """
    turns = [Turn(outcome.turn.generation, 1, 0, emits=True) for outcome in outcomes]
    sizes = [turn.generation.history.size for turn in turns]
    rounds = 1
    while rounds <= most and not hurried() and not any(turn.generation.finish for turn in turns):
        if not one_more(target, turns):
            break
        rounds += 1
    return [
        each._replace(emitted=each.emitted + turn.generation.history.size - size, rounds=rounds)
        for each, turn, size in zip(outcomes, turns, sizes, strict=True)
    ]


def one_more(target: Model, turns: Sequence[Turn]) -> bool:
    """Feed the newest token of each, and sample the next; return whether that worked."""
    try:
        found = target.forward([turn.row(RESTING) for turn in turns])
        for turn, logits in zip(turns, found, strict=True):
            g = turn.generation
            distribution = g.sampler.sampling.distribution(logits[0])
            g.extend([settle(-1, None, distribution, g.sampler.dice, g.history.size)])
            g.cached += 1
    except Exception:
        for g in [turn.generation for turn in turns]:
            g.cached = target.truncate(g.slot, g.cached)
        return False
    return True

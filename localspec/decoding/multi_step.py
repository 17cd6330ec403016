"""Several rounds of plain decoding in a row, with nothing but sampling between them.

A forward evicts our code and data from the processor's caches. Work between two forwards then takes
ten times as long as in a loop of its own: 0.3 to 0.6 ms beside 9 ms for a token (SmolLM2-135M in
Q8_0 on two cores).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localspec.backend import Model, MultiStepModel
from localspec.decoding.generation import Generation
from localspec.decoding.round import Outcome, Turn, sampling_of
from localspec.draft import RESTING
from localspec.tokens import Logits

Hurried = Callable[[], bool]  # whether something waits that cannot wait for long


def more_rounds(
    target: Model, outcomes: Sequence[Outcome], most: int, hurried: Hurried
) -> list[Outcome]:
    """Run up to `most` further rounds for all; return the outcomes of all rounds together.

    They end early where a sequence ends, or where something is wrong: the next round meets the
    error again, and tells it to those that it concerns.
    """
    generations = [outcome.turn.generation for outcome in outcomes]
    sizes = [g.history.size for g in generations]
    steps = Steps(generations, most, hurried)
    try:
        if not steps.over:
            run(target, steps)
    except Exception:
        for g in generations:
            g.cached = target.truncate(g.slot, g.cached)
    return [
        each._replace(emitted=each.emitted + g.history.size - size, rounds=1 + steps.done)
        for each, g, size in zip(outcomes, generations, sizes, strict=True)
    ]


class Steps:
    """Rounds of one token each, which are sampled as they come."""

    def __init__(self, generations: Sequence[Generation], most: int, hurried: Hurried) -> None:
        self.generations = generations
        self.done = 0
        self._most = most
        self._hurried = hurried
        self._samples = [(g, sampling_of(g)) for g in generations]

    @property
    def over(self) -> bool:
        return self._hurried() or any(g.finish is not None for g in self.generations)

    def choose(self, found: Sequence[Logits]) -> list[int] | None:
        """Sample the next token of each sequence; None if there is to be no further round."""
        newest, ended = [], False
        for (g, sample), logits in zip(self._samples, found, strict=True):
            token = sample(logits)
            newest.append(token)
            ended |= g.append(token)
        self.done += 1
        return None if ended or self.done == self._most or self._hurried() else newest


def run(target: Model, steps: Steps) -> None:
    """Feed the newest token of each sequence, again and again."""
    if target.head is None and isinstance(target, MultiStepModel):
        newest = [int(g.tokens[-1]) for g in steps.generations]
        target.multi_step([g.slot for g in steps.generations], newest, steps.choose)
        return
    turns = [Turn(g, 1, 0, emits=True) for g in steps.generations]
    while steps.choose([each[0] for each in target.forward([t.row(RESTING) for t in turns])]):
        pass

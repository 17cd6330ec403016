"""Several rounds of plain decoding in a row, with nothing but sampling between them.

A forward evicts our code and data from the processor's caches. Work between two forwards then takes
ten times as long as in a loop of its own: 0.3 to 0.6 ms beside 9 ms for a token (SmolLM2-135M in
Q8_0 on two cores).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localspec.backend import Model, MultiStep
from localspec.decoding.generation import Generation
from localspec.decoding.round import Turn, sampling_of
from localspec.draft import RESTING, Draft
from localspec.tokens import Logits

Hurried = Callable[[], bool]  # whether something waits that cannot wait for long


def several_rounds(
    target: Model, pairs: Sequence[tuple[Turn, Draft]], most: int, hurried: Hurried
) -> int:
    """Run up to `most` plain rounds, of which the first has these turns; return how many were run.

    They end early where a sequence ends, or where something is wrong: the next round meets the
    error again, and tells it to those that it concerns.
    """
    steps = Steps([(turn.generation, draft) for turn, draft in pairs], most, hurried)
    try:
        by_itself: MultiStep | None = getattr(target, "multi_step", None)
        if by_itself and target.head is None:
            newest = [int(g.tokens[-1]) for g in steps.generations]
            by_itself([g.slot for g in steps.generations], newest, steps.choose)
        else:
            rows = [turn.row(draft) for turn, draft in pairs]
            while steps.choose([logits[0] for logits in target.forward(rows)]):
                rows = [turn.row(RESTING) for turn, _ in pairs]
    except Exception:
        for g in steps.generations:
            g.cached = target.truncate(g.slot, g.cached)
    return steps.done


class Steps:
    """Rounds of one token each, which are sampled as they come."""

    def __init__(
        self, pairs: Sequence[tuple[Generation, Draft]], most: int, hurried: Hurried
    ) -> None:
        self.generations = [g for g, _ in pairs]
        self.done = 0
        self._most = most
        self._hurried = hurried
        self._samples = [sampling_of(g) for g in self.generations]
        self._watched = [(g, draft.rests, draft.watch) for g, draft in pairs if draft.watch]

    def choose(self, found: Sequence[Logits]) -> list[int] | None:
        """Sample the next token of each sequence; None if there is to be no further round."""
        pairs = zip(self._samples, found, strict=True)
        newest = [sample(logits) for sample, logits in pairs]  # all, or an error and none
        ended = False
        for g, token in zip(self.generations, newest, strict=True):
            ended |= g.append(token)
        self.done += 1
        if ended or self.done == self._most or self._hurried() or self._stirs():
            return None
        return newest

    def _stirs(self) -> bool:
        """Whether a draft is worth asking for."""
        return any(self.done > rests and watch(g.tokens) for g, rests, watch in self._watched)

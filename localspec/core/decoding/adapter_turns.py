"""Whose turn it is among texts with different adapters, which cannot share a batch."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.core.decoding.generation import Generation
from localspec.interfaces.adapter import Scales

# Seconds of a turn, but for the round that ends it. An engine lays its graph out anew for other
# adapters: llama.cpp takes 3 to 4 ms for that, beside 16 ms for a token of Qwen2.5-Coder-0.5B.
TURN_SECONDS = 0.05


class AdapterTurns:
    """Gives texts of equal adapters turns, so that each set of adapters has as much time.

    How many texts a set has does not matter: they share its batches.
    """

    def __init__(self) -> None:
        self._used: dict[Scales, float] = {}  # seconds of each set that has texts
        self._now: Scales = ()
        self._spent = 0.0  # seconds of this turn

    def choose(self, generations: Sequence[Generation]) -> Sequence[Generation]:
        """Return the texts whose turn it is: all, unless their adapters differ."""
        before = self._used
        sets = dict.fromkeys(g.adapters for g in generations)
        # A set that comes has no time to catch up on.
        least = min((before[scales] for scales in sets if scales in before), default=0.0)
        used = self._used = {scales: before.get(scales, least) for scales in sets}
        if self._now not in used or self._spent >= TURN_SECONDS:
            self._now = min(used, key=lambda scales: (used[scales], scales == self._now))
            self._spent = 0.0
        return [g for g in generations if g.adapters == self._now]

    def note(self, seconds: float) -> None:
        """Count the time of a round."""
        self._spent += seconds
        self._used[self._now] += seconds

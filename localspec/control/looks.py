"""When to look for drafts of a text: a look takes time also where it finds none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.control.depth import APART, Depth
from localspec.proposer import Ask

# Rounds after a draft in which each has a look for another; fewer where a draft token takes a third
# of a plain round or more, so that few drafts pay and looks take more than they find.
IDLE, IDLE_IF_DEAR, DEAR = 8, 2, 0.35
LATER, SELDOM = 4, 8  # rounds between two looks then, and
RARE = 20  # after so many rounds without a draft
STALE = 16  # rounds after which what depends on costs is decided anew


@dataclass(slots=True)
class Looks:
    """Chooses the rounds in which proposers are asked."""

    depth: Depth
    rounds: int = 0
    known: bool = False  # whether there were looks before at all texts of this round
    _idle: dict[int, int] = field(default_factory=dict)  # rounds that each have a look, by rows
    _busy: dict[int, int] = field(default_factory=dict)  # round of the latest good draft, by slot
    _looked: dict[int, int] = field(default_factory=dict)  # round of the latest look, by slot

    def due(self, asks: Sequence[Ask]) -> Sequence[Ask]:
        """Choose the texts to look for drafts for; note that they are looked at.

        Rows that are drafted for equally far or not at all are looked at together.
        """
        due = [ask for ask in asks if self._next_look(ask, len(asks)) <= self.rounds]
        if self._jointly(len(asks)) and len(due) < len(asks):
            return ()
        self.known = all(ask.slot in self._looked for ask in due)
        for ask in due:
            self._looked[ask.slot] = self.rounds
        return due

    def wait(self, asks: Sequence[Ask]) -> int:
        """Return in how many rounds the next look comes."""
        waits = [self._next_look(ask, len(asks)) - self.rounds for ask in asks]
        return (max if self._jointly(len(asks)) else min)(waits, default=0)

    def drafted(self, slot: int) -> None:
        """Look at a text often, since a draft for it was good."""
        self._busy[slot] = self.rounds

    def release(self, slot: int) -> None:
        self._busy.pop(slot, None)
        self._looked.pop(slot, None)

    def note(self, rounds: int) -> bool:
        """Count rounds; tell whether what depends on costs is to be decided anew."""
        before, self.rounds = self.rounds, self.rounds + rounds
        stale = before // STALE < self.rounds // STALE
        if stale:
            self._idle.clear()
        return stale

    def _next_look(self, ask: Ask, rows: int) -> int:
        """Return the round of the next look, more rarely for a text not drafted for of late.

        Looking takes 4% of a round where a model is small. That all of several rows have a draft at
        once is the rarer, the more they are.
        """
        slot = ask.slot
        idle = self.rounds - self._busy.setdefault(slot, self.rounds)
        if idle <= self._eager(rows) or ask.hints.forced is not None:
            return self.rounds
        wait = LATER if idle <= RARE else SELDOM
        if self._jointly(rows):
            wait *= rows // 2
        return self._looked.get(slot, self.rounds - wait) + wait

    def _eager(self, rows: int) -> int:
        """Return for how many rounds after a draft each has a look for another."""
        if rows not in self._idle:
            drafted = rows if self._jointly(rows) else 1
            dear = self.depth.costs.dearness(drafted) > DEAR
            self._idle[rows] = IDLE_IF_DEAR if dear else IDLE
        return self._idle[rows]

    def _jointly(self, rows: int) -> bool:
        """Whether all of several rows are drafted for equally far, or none."""
        return self.depth.even and rows > APART

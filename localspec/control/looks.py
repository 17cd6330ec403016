"""When to look for drafts of a text: a look takes time also where it finds none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from localspec.control.costs import Batch
from localspec.control.depth import APART, Depth
from localspec.draft import Watch
from localspec.proposer import Ask

IDLE = 8  # rounds after a draft in which each has a look for another
LATER, SELDOM = 4, 8  # rounds between two looks then; half as many where a text is watched
RARE = 20  # rounds without a draft after which looks are seldom
# A draft token takes so much of a plain round, or more: few drafts pay, and looks take more than
# they find. Texts are watched then, for runs of two tokens or, where it takes still more, of three.
DEAR, DEARER = 0.2, 0.3
STALE = 16  # rounds after which what depends on costs is decided anew


@dataclass(slots=True)
class Looks:
    """Chooses the rounds in which proposers are asked."""

    depth: Depth
    rounds: int = 0
    known: bool = False  # whether there were looks before at all texts of this round
    _run: int | None = None  # tokens for which texts are watched; None: to be found out
    _busy: dict[int, int] = field(default_factory=dict)  # round of the latest good draft, by slot
    _looked: dict[int, int] = field(default_factory=dict)  # round of the latest look, by slot

    def run(self, batch: Batch) -> int:
        """Return how many tokens must have occurred before for a look to pay; 0: none need."""
        if self._run is None:
            dearness = self.depth.costs.dearness(batch)
            self._run = 3 if dearness > DEARER else 2 if dearness > DEAR else 0
        return 0 if self._jointly(batch.rows) else self._run

    def due(self, asks: Sequence[Ask], watches: Mapping[int, Watch]) -> Sequence[Ask]:
        """Choose the texts to look for drafts for; note that they are looked at.

        Rows that are drafted for equally far or not at all are looked at together.
        """
        due = [ask for ask in asks if self._is_due(ask, len(asks), watches.get(ask.slot))]
        if self._jointly(len(asks)) and len(due) < len(asks):
            return ()
        self.known = all(ask.slot in self._looked for ask in due)
        for ask in due:
            self._looked[ask.slot] = self.rounds
        return due

    def waits(self, asks: Sequence[Ask], watches: Mapping[int, Watch]) -> Sequence[int]:
        """Return for each text how many rounds there are at least until the next look."""
        rows = len(asks)
        waits = [self._next_look(ask, rows, ask.slot in watches) - self.rounds for ask in asks]
        return [max(waits)] * rows if self._jointly(rows) else waits

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
            self._run = None
        return stale

    def _is_due(self, ask: Ask, rows: int, watch: Watch | None) -> bool:
        if self._next_look(ask, rows, watch is not None) > self.rounds:
            return False
        return watch is None or watch(ask.history)

    def _next_look(self, ask: Ask, rows: int, watched: bool) -> int:
        """Return the round of the next look, more rarely for a text not drafted for of late.

        Looking takes 4% of a round where a model is small. That all of several rows have a draft at
        once is the rarer, the more they are.
        """
        slot = ask.slot
        idle = self.rounds - self._busy.setdefault(slot, self.rounds)
        if idle <= IDLE or ask.hints.forced is not None:
            return self.rounds
        wait = LATER if idle <= RARE else SELDOM
        if watched:
            wait //= 2
        elif self._jointly(rows):
            wait *= rows // 2
        return self._looked.get(slot, self.rounds - wait) + wait

    def _jointly(self, rows: int) -> bool:
        """Whether all of several rows are drafted for equally far, or none."""
        return self.depth.even and rows > APART

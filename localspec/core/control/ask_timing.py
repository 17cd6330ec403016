"""When to look for drafts of a text: a look takes time even if it finds none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from localspec.base.tokens import Tokens
from localspec.core.control.depth import Depth
from localspec.interfaces.costs import Batch
from localspec.interfaces.draft_stopping import Pays, always, likely
from localspec.interfaces.proposer import NOT_QUIET, Ask, Quiet

Watch = Callable[[Tokens], bool]  # whether to look for a draft of the text, which has grown

BUSY_ROUNDS = 8  # after a good draft, in each of which there is a look for another
WAIT, LONG_WAIT = 4, 8  # rounds between two looks after that; half as many in a watched text
IDLE_ROUNDS = 20  # without a good draft, after which the wait is long
# Where a draft token takes such a part of a plain round, few drafts pay, and looking for them costs
# more than they bring. A text is then only looked at if its last two tokens occurred before, or the
# last three where tokens are dearer still: the first draft token is likely to be right then.
DEAR, DEARER = 0.2, 0.3
PROMISING, SURE = likely(0.4), likely(0.6)
# Beside other rows, which wait for the look, a first draft token must be as likely as it is dear:
# as likely as after one token that occurred before, or at most as after nine in a row.
ANY, SUREST = 0.25, 0.85
FEW = 4  # rows; twice as many are looked at half as often
STALE_ROUNDS = 16  # after which decisions by costs are made anew


@dataclass(slots=True)
class AskTiming:
    """Chooses the rounds in which proposers are asked."""

    depth: Depth
    rounds: int = 0
    all_seen: bool = False  # whether each text that was due last had been looked at before
    _pays: dict[int, Pays] = field(default_factory=dict)  # `pays` by rows, where that is known
    _busy: dict[int, int] = field(default_factory=dict)  # round of the latest good draft, by slot
    _looked: dict[int, int] = field(default_factory=dict)  # round of the latest look, by slot

    def pays(self, batch: Batch) -> Pays:
        """Return which first draft tokens would pay for a look."""
        rows = batch.rows
        if rows not in self._pays:
            self._pays[rows] = always if self._jointly(rows) else self._paying(batch)
        return self._pays[rows]

    def _paying(self, batch: Batch) -> Pays:
        if batch.rows > 1:
            price = self.depth.prices(batch._replace(beside=0)).verifying(1)[-1]
            return likely(min(price, SUREST)) if price > ANY else always
        dearness = self.depth.costs.dearness(batch)
        return SURE if dearness > DEARER else PROMISING if dearness > DEAR else always

    def due(self, asks: Sequence[Ask], watches: Mapping[int, Watch]) -> Sequence[Ask]:
        """Return the texts to look for drafts for, and record this round as their latest look.

        Where all drafts of a batch are equally long, all texts are looked at or none.
        """
        due = [ask for ask in asks if self._is_due(ask, len(asks), watches.get(ask.slot))]
        if self._jointly(len(asks)) and len(due) < len(asks):
            return ()
        self.all_seen = all(ask.slot in self._looked for ask in due)
        for ask in due:
            self._looked[ask.slot] = self.rounds
        return due

    def quiets(self, asks: Sequence[Ask], watches: Mapping[int, Watch]) -> dict[int, Quiet]:
        """Return for each text how long it is not looked at."""
        rows, apart = len(asks), self._apart(len(asks))
        next_looks = [self._next_look(ask, rows, ask.slot in watches, after=1) for ask in asks]
        waits = [look - self.rounds for look in next_looks]
        if self._jointly(rows):
            waits = [max(waits)] * rows
        pairs = zip(asks, waits, strict=True)
        return {
            ask.slot: quiet_for(wait, watches.get(ask.slot), apart=apart) for ask, wait in pairs
        }

    def note_draft(self, slot: int) -> None:
        """Look at a text in each round for a while: a draft for it was good."""
        self._busy[slot] = self.rounds

    def release(self, slot: int) -> None:
        self._busy.pop(slot, None)
        self._looked.pop(slot, None)

    def note(self, rounds: int) -> bool:
        """Count rounds; return whether to decide anew what depends on costs."""
        before, self.rounds = self.rounds, self.rounds + rounds
        stale = before // STALE_ROUNDS < self.rounds // STALE_ROUNDS
        if stale:
            self._pays.clear()
        return stale

    def _is_due(self, ask: Ask, rows: int, watch: Watch | None) -> bool:
        if self._next_look(ask, rows, watch is not None) > self.rounds:
            return False
        return watch is None or watch(ask.history)

    def _next_look(self, ask: Ask, rows: int, watched: bool, after: int = 0) -> int:
        """Return the round of the next look: each round, or some later for a text without drafts.

        Looking takes 4% of a round where a model is small. The more rows there are that only draft
        together, the rarer all of them have a draft. Rows that draft apart are looked at in the
        same rounds, so that plain ones can be run in a row between: the first from `after` on.
        """
        slot = ask.slot
        idle = self.rounds - self._busy.setdefault(slot, self.rounds)
        share = max(rows // FEW, 1) if self._apart(rows) else 1
        if idle <= BUSY_ROUNDS // share or ask.sampler.is_constrained or ask.is_forced:
            return self.rounds
        wait = WAIT if idle <= IDLE_ROUNDS else LONG_WAIT
        if self._apart(rows):
            wait = wait * share // 2
            return -(-(self.rounds + after) // wait) * wait
        if watched:
            wait //= 2
        elif rows > 1:
            wait *= rows // 2
        return self._looked.get(slot, self.rounds - wait) + wait

    def _jointly(self, rows: int) -> bool:
        """Whether all drafts of a batch are equally long."""
        return self.depth.even and rows > 1

    def _apart(self, rows: int) -> bool:
        """Whether drafts of a batch may be of any lengths."""
        return rows > 1 and not self.depth.even


def quiet_for(wait: int, watch: Watch | None, *, apart: bool) -> Quiet:
    """Return for how long no draft is looked for: `wait` rounds, or until the watch ends it.

    Rows that draft apart end plain rounds by their watches only where no round is waited for.
    """
    if watch and not (apart and wait):
        return Quiet(wait, watch)
    return Quiet(wait if apart else max(wait, 2)) if wait else NOT_QUIET

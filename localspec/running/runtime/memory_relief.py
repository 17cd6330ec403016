"""Draft without the draft model while memory is short, and with it again once there is plenty.

A drafting head goes as well, and stays away: it cannot follow texts that began without it. So does
what cannot pay: nobody asks it for drafts then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from localspec.base.errors import BackendError, LocalSpecError, OutOfMemory
from localspec.core.pairing.pair import Pair
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import Ask, Proposer, Quiet, RoundCost, notes_of, quiet_of
from localspec.running.memory.placement import DRAFT_HEAD, DRAFT_MODEL
from localspec.running.memory.planner import Watcher
from localspec.running.runtime.loaded_pair import LoadedPair

LOOK_SECONDS = 1.0  # seconds between two looks at the memory
HOPELESS_LOOKS = 30  # in a row at which the drafter could not pay, after which it goes for good
AMPLE_SECONDS = 30.0  # seconds without a shortage, after which the draft model may come back

LOG = logging.getLogger("localspec")


class DraftModelRelief:
    """A proposer that frees its draft model or head when memory is short.

    The output stays the same: drafts never decide it.
    """

    def __init__(
        self,
        loaded_pair: LoadedPair,
        make: Callable[[Pair], Proposer],
        memory: Watcher,
        clock: Callable[[], float] = time.monotonic,
        hopeless: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loaded, self._hopeless, self._hopeless_looks = loaded_pair, hopeless, 0
        self._make, self._memory, self._clock = make, memory, clock
        self._use(make(loaded_pair.pair))
        self._looked = self._short = clock()  # when memory was looked at, and was short, last
        self._away = False
        self._notices: list[str] = []

    @property
    def away(self) -> bool:
        """Whether the draft model was put away and may come back."""
        return self._away

    @property
    def _drafter(self) -> str:
        """The name of the drafter that can be freed; empty if there is none."""
        if self._loaded.pair.draft is not None:
            return DRAFT_MODEL
        return DRAFT_HEAD if self._loaded.pair.target.head is not None else ""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        self._look()
        try:
            return self._proposer.propose(asks)
        except BackendError as error:
            # Whatever is wrong, the target can do without; but only memory may come back.
            if not self.give_up(str(error)):
                raise
            self._away &= isinstance(error, OutOfMemory)
            return self._proposer.propose(asks)

    def release(self, slot: int) -> None:
        self._proposer.release(slot)

    def quiet(self, ask: Ask) -> Quiet:
        return self._quiet(ask)

    def note(self, cost: RoundCost) -> None:
        for note in self._notes:
            note(cost)

    def take_notices(self) -> list[str]:
        """Return notices for clients, once."""
        notices, self._notices = self._notices, []
        return notices

    def idle(self) -> None:
        """Take the draft model back while no request waits, after memory was free for a while."""
        if not self.away:
            return
        now = self._clock()
        if self._memory.shortage() or not self._memory.has_room(self._loaded.plan.for_draft):
            self._short = now
        elif now - self._short >= AMPLE_SECONDS:
            self._take_back()

    def give_up(self, why: str) -> bool:
        """Free the draft model or the drafting head; False if there is none."""
        drafter = self._drafter
        if not drafter:
            return False
        self._away = self._loaded.pair.draft is not None
        self._loaded = self._loaded.without_drafter()
        self._use(self._make(self._loaded.pair))
        self._short = self._clock()
        self._report(f"the {drafter} was put away, prompt lookup drafts instead: {why}")
        return True

    def close(self) -> None:
        self._loaded.without_drafter()

    def _use(self, proposer: Proposer) -> None:
        self._proposer, self._notes = proposer, notes_of([proposer])
        self._quiet = quiet_of(proposer)

    def _look(self) -> None:
        now = self._clock()
        if self._drafter and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._hopeless_looks = self._hopeless_looks + 1 if self._hopeless() else 0
            if self._hopeless_looks >= HOPELESS_LOOKS:
                self.give_up("its drafts cost more here than they can win")
                self._away = False
            elif why := self._memory.shortage():
                self.give_up(why)

    def _take_back(self) -> None:
        try:
            self._loaded = self._loaded.with_draft()
        except LocalSpecError as error:
            self._short = self._clock()
            self._away = isinstance(error, OutOfMemory)  # its file may be gone
            return
        self._away = False
        self._use(self._make(self._loaded.pair))
        self._report("the draft model is back: there is memory for it again")

    def _report(self, text: str) -> None:
        LOG.warning(text)
        self._notices.append(text)

"""Makes the proposers of a pair, and one proposer that chooses among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.pairing.pair import Pair
from localspec.core.proposers import registry
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.silent import Silent
from localspec.interfaces.proposer import Proposer

SUBSTITUTE = "suffix"  # the proposer where there is only a draft model, and no memory for it


class ProposerFactory:
    """Makes the proposers of a pair, and again when its drafter is freed or comes back.

    All but the draft model's keep what they learned. With a `depth`, the proposer that pays most
    drafts, as far as it pays; without one, the first by name that has a draft. Those in `ready` are
    taken as they are.
    """

    def __init__(
        self,
        names: Sequence[str],
        depth: Depth | None = None,
        clock: Callable[[], float] = time.perf_counter,
        ready: Mapping[str, Proposer] | None = None,
    ) -> None:
        self._names = tuple(names)
        self._depth, self._clock = depth, clock
        self._ready = dict(ready or {})

    def __call__(self, pair: Pair) -> Proposer:
        proposers = self._proposers(pair)
        if not proposers:
            return Silent()
        return Best(proposers, self._depth, self._clock) if self._depth else FirstOf(proposers)

    def _proposers(self, pair: Pair) -> Mapping[str, Proposer]:
        names = self._names
        gone = {registry.DRAFT} if pair.draft is None else set()
        gone |= set(registry.HEADS) if pair.target.head is None else set()
        if gone & set(names):
            names = tuple(name for name in names if name not in gone) or (SUBSTITUTE,)
        new = registry.make_proposers([name for name in names if name not in self._ready], pair)
        self._ready |= {name: proposer for name, proposer in new.items() if name != registry.DRAFT}
        return {name: new.get(name) or self._ready[name] for name in names}

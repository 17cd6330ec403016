"""The assembly of an engine: a loaded pair, its proposers and its depth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from localspec.control.best import Best
from localspec.control.depth import Depth
from localspec.engine.engine import NO_PARTS, Engine, EngineParts
from localspec.memory.planner import Limits, Watcher, there
from localspec.pairing.pair import Pair
from localspec.proposer import Proposer
from localspec.proposers import registry
from localspec.proposers.first_of import FirstOf
from localspec.proposers.silent import Silent
from localspec.runtime.loaded_pair import LoadedPair
from localspec.runtime.memory_relief import DraftModelRelief

INSTEAD = "suffix"  # the proposer where there is only a draft model, and no memory for it


def automatic(
    loaded_pair: LoadedPair, wanted: Sequence[str], depth: Depth, parts: EngineParts = NO_PARTS
) -> Engine:
    """Draft as far as it pays, with the proposer that pays most."""
    factory = ProposerFactory(wanted, depth)
    parts = replace(parts, costs=depth.costs)
    return assembled(loaded_pair, factory, loaded_pair.pair.target.tentative, parts)


def fixed(
    loaded_pair: LoadedPair, wanted: Sequence[str], depth: int, parts: EngineParts = NO_PARTS
) -> Engine:
    """Always draft `depth` tokens, with the first of `wanted` that returns a draft."""
    return assembled(loaded_pair, ProposerFactory(wanted), depth, parts)


def assembled(
    loaded_pair: LoadedPair, factory: ProposerFactory, depth: int, parts: EngineParts
) -> Engine:
    """Build the engine; it may give up what drafts when memory runs short."""
    target = loaded_pair.pair.target
    if loaded_pair.pair.draft is None and target.head is None:
        return Engine(target, factory(loaded_pair.pair), depth, parts=parts)
    look = partial(there, loaded_pair.known.target.engine.name, Limits())
    relief = DraftModelRelief(loaded_pair, factory, Watcher(loaded_pair.plan, look))
    return Engine(target, relief, depth, parts=replace(parts, relief=relief))


class ProposerFactory:
    """Makes the proposers of a pair; all but what has gone keep what they know."""

    def __init__(
        self,
        wanted: Sequence[str],
        depth: Depth | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._wanted = tuple(wanted)
        self._depth, self._clock = depth, clock
        self._known: dict[str, Proposer] = {}

    def __call__(self, pair: Pair) -> Proposer:
        proposers = self._proposers(pair)
        if not proposers:
            return Silent()
        return Best(proposers, self._depth, self._clock) if self._depth else FirstOf(proposers)

    def _proposers(self, pair: Pair) -> Mapping[str, Proposer]:
        names = self._wanted
        gone = {registry.DRAFT} if pair.draft is None else set()
        gone |= set(registry.HEADS) if pair.target.head is None else set()
        if gone & set(names):
            names = tuple(name for name in names if name not in gone) or (INSTEAD,)
        new = [name for name in names if name not in self._known]
        made = registry.make(new, pair)
        self._known |= {name: made[name] for name in new if name != registry.DRAFT}
        return {name: made.get(name) or self._known[name] for name in names}

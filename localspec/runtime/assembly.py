"""Put an engine together: a loaded pair, and who guesses how far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from localspec.control.best import Best
from localspec.control.depth import Depth
from localspec.engine.engine import ALONE, Company, Engine
from localspec.memory.planner import Limits, Watcher, there
from localspec.pairing.pair import Pair
from localspec.proposer import Proposer
from localspec.proposers import registry
from localspec.proposers.first_of import FirstOf
from localspec.runtime.loaded_pair import Opened
from localspec.runtime.memory_relief import Guessing, Relief

INSTEAD = "suffix"  # guesses where there is nobody but a draft model, and no memory for it


def automatic(
    found: Opened, wanted: Sequence[str], depth: Depth, company: Company = ALONE
) -> Engine:
    """An engine that guesses as far as it pays, by whom it pays most."""
    company = replace(company, costs=depth.costs)
    return assembled(found, Circle(wanted, depth), found.pair.target.tentative, company)


def fixed(found: Opened, wanted: Sequence[str], depth: int, company: Company = ALONE) -> Engine:
    """An engine that guesses so far whenever one of these can, the first first."""
    return assembled(found, Circle(wanted), depth, company)


def assembled(found: Opened, circle: Circle, depth: int, company: Company) -> Engine:
    """With a draft model it is the engine's to give up, for memory."""
    target = found.pair.target
    if found.pair.draft is None:
        guessing = circle(found.pair)
        watching = replace(company, watch=guessing.watch)
        return Engine(target, guessing.proposer, depth, company=watching)
    look = partial(there, found.places.target.engine, Limits())
    relief = Relief(found, circle, Watcher(found.plan, look))
    watch = relief.note if circle.learns else None
    return Engine(target, relief, depth, company=replace(company, watch=watch, relief=relief))


class Circle:
    """Those who guess for a pair: a draft model may go and come, the others keep what they know."""

    def __init__(self, wanted: Sequence[str], depth: Depth | None = None) -> None:
        self._wanted = tuple(wanted)
        self._depth = depth
        self._known: dict[str, Proposer] = {}

    @property
    def learns(self) -> bool:
        """Whether what rounds take decides how far is guessed."""
        return self._depth is not None

    def __call__(self, pair: Pair) -> Guessing:
        proposers = self._proposers(pair)
        if self._depth is None or not proposers:
            return Guessing(FirstOf(proposers))
        best = Best(proposers, self._depth)
        return Guessing(best, best.note)

    def _proposers(self, pair: Pair) -> Mapping[str, Proposer]:
        names = self._wanted
        if pair.draft is None and registry.DRAFT in names:
            names = tuple(name for name in names if name != registry.DRAFT) or (INSTEAD,)
        new = [name for name in names if name not in self._known]
        made = registry.make(new, pair)
        self._known |= {name: made[name] for name in new if name != registry.DRAFT}
        return {name: made.get(name) or self._known[name] for name in names}

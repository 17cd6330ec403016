"""The ways to decode that are compared, all over the same loaded models.

This is the one place in `bench` that knows how models are loaded and engines are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from localspec.backend import Model
from localspec.bench.watched import Watched
from localspec.control.costs import Costs
from localspec.control.depth import Depth
from localspec.engine.engine import Engine, EngineParts
from localspec.errors import UsageError
from localspec.pairing.pair import Pair
from localspec.pairing.vocabulary import Match
from localspec.proposers import registry
from localspec.runtime import kept_calibrations, loading
from localspec.runtime.assembly import ProposerFactory
from localspec.runtime.loaded_pair import PairFiles, ResolvedPair, checked, loaded
from localspec.runtime.loading import Loading

PLAIN = "plain"
AUTO = "auto"
DEPTH = 4  # where a mode names none
DEEPEST = loading.DEEP
USUAL = (PLAIN, AUTO, "suffix:2", "suffix:4", "suffix:8", "prediction:8", "ngram:4")
WITH_A_DRAFTER = (PLAIN, AUTO, "suffix:4", "{}:2", "{}:4", "{}:8")
ANY = "*"  # in place of a drafter, before one is known


@dataclass(frozen=True, slots=True)
class Kind:
    """A mode as it was asked for, before anything is loaded."""

    name: str
    proposers: tuple[str, ...]
    depth: int | None  # None: what pays


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to decode: `make` gives an engine without text, which may keep measured costs."""

    name: str
    make: Callable[[], Engine]


@dataclass(frozen=True, slots=True)
class Lineup:
    """All modes. Their engines share the models, so only the newest engine may be used."""

    target: Watched
    models: tuple[Model, ...]  # the target, and the draft model if there is one
    modes: tuple[Mode, ...]
    pairing: Match | None = None  # how the draft model's vocabulary fits

    def engine(self, mode: Mode) -> Engine:
        """Make an engine over emptied slots, so that no mode reuses another's cache."""
        for model in self.models:
            for slot in range(model.slots):
                model.truncate(slot, 0)
        return mode.make()


def kinds(names: Sequence[str], drafter: str = "") -> tuple[Kind, ...]:
    """Parse modes by name; plain decoding is always among them, and first.

    The drafter is the proposer of the draft model or of the head that the model comes with.
    """
    usual = USUAL if drafter in ("", ANY) else [name.format(drafter) for name in WITH_A_DRAFTER]
    return tuple(_kind(name, drafter) for name in dict.fromkeys((PLAIN, *(names or usual))))


def _kind(name: str, drafter: str) -> Kind:
    if name == PLAIN:
        return Kind(name, (), 0)
    if name == AUTO:
        return Kind(name, registry.names("auto", drafter), None)
    proposer, colon, depth = name.partition(":")
    proposer = registry.meant(proposer, drafter)
    if proposer not in registry.known() or (colon and not depth.isdecimal()):
        known = ", ".join((PLAIN, AUTO, *registry.known()))
        raise UsageError(f"there is no mode {name!r}; known: {known}, or with a depth: ngram:8")
    if not 1 <= int(depth or DEPTH) <= DEEPEST:
        raise UsageError(f"mode {name} has depth {depth}; it must be 1 to {DEEPEST}")
    if proposer in (registry.DRAFT, *registry.HEADS) and drafter not in (ANY, proposer):
        what = "draft model" if proposer == registry.DRAFT else "drafting head"
        raise UsageError(f"mode {name} needs a {what}: give one with --draft")
    return Kind(name, (proposer,), int(depth or DEPTH))


@contextmanager
def load(
    places: PairFiles, wish: Loading, names: Sequence[str]
) -> Iterator[tuple[Lineup, ResolvedPair]]:
    """Load a model, and what drafts for it if there is such a thing, for all these modes."""
    with places.examined() as looks:
        wanted = kinds(names, looks.drafter)
        wish = _deep_enough(loading.deepened(looks.target.footprint, wish), wanted)
        used = any(looks.drafter in kind.proposers for kind in wanted)
        options = replace(wish.options, head=looks.head if used else None)
        known = checked(looks, options, wish.limits, insists=True)
    with loaded(known, insists=True) as found:
        target = Watched(found.pair.target)
        pair = replace(found.pair, target=target)
        automatic = any(kind.depth is None for kind in wanted)
        costs = kept_calibrations.calibrated(found).costs if automatic else Costs
        modes = tuple(_mode(kind, pair, costs) for kind in wanted)
        models = (target,) if pair.draft is None else (target, pair.draft)
        yield Lineup(target, models, modes, pair.match), known


def _deep_enough(wish: Loading, wanted: Sequence[Kind]) -> Loading:
    """Make room for the drafts of every mode, also where they take memory."""
    deepest = max(wish.options.tentative, *(kind.depth or 0 for kind in wanted))
    return replace(wish, options=replace(wish.options, tentative=deepest))


def _mode(kind: Kind, pair: Pair, costs: Callable[[], Costs]) -> Mode:
    learnt = Depth(costs())  # stays with the mode, as it does with a program that goes on

    def make() -> Engine:
        depth = learnt if kind.depth is None else None
        proposer = ProposerFactory(kind.proposers, depth)(pair)
        most = pair.target.tentative if kind.depth is None else kind.depth
        parts = EngineParts(costs=depth.costs if depth else None)
        return Engine(pair.target, proposer, most, parts=parts)

    return Mode(kind.name, make)

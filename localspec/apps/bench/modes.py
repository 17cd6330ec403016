"""The compared ways to decode, all over the same loaded models.

This is the one place in `bench` that knows how models are loaded and engines are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from localspec.apps.bench.verdict import AUTO, LOOKUP
from localspec.apps.bench.watched import Watched
from localspec.base.errors import UsageError
from localspec.base.tokens import NONE, Tokens
from localspec.core.control.depth import Depth
from localspec.core.pairing.pair import Pair
from localspec.core.pairing.vocabulary import Match
from localspec.core.proposers import registry
from localspec.core.requests.engine import Engine, EngineParts
from localspec.interfaces.backend import BATCH_MARGIN, MAX_TENTATIVE, Model
from localspec.interfaces.costs import Costs
from localspec.running.runtime import kept_calibrations
from localspec.running.runtime.loaded_pair import load_models
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.long_drafts import with_long_drafts
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.phases import TellPhase, unheard
from localspec.running.runtime.proposer_factory import ProposerFactory
from localspec.running.runtime.resolved_pair import ResolvedPair, resolve_pair

PLAIN = "plain"
AGAIN = "plain again"  # after the other modes: the difference is the machine's
DEPTH = 4  # where a mode names none
DETAILS = ("suffix:2", "suffix:4", "suffix:8", "prediction:8", "ngram:4")
DETAILS_OF_DRAFTER = ("suffix:4", "{}:2", "{}:4", "{}:8")
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
    reads: bool = False  # whether more than the target reads the prompt, so that it must be fed


@dataclass(frozen=True, slots=True)
class Lineup:
    """All modes. Their engines share the models, so only the newest engine may be used."""

    target: Watched
    models: tuple[Model, ...]  # the target, and the draft model if there is one
    modes: tuple[Mode, ...]
    pairing: Match | None = None  # how the draft model's vocabulary fits
    drafter: str = ""  # the proposer of the draft model or of the head

    def engine(self, mode: Mode, prompt: Tokens = NONE) -> Engine:
        """Make an engine over emptied slots, but for the beginning of a prompt in the first.

        So a prompt is read once; the rest that an engine held, such as a reply, is forgotten.
        """
        kept = 0
        for model in self.models:
            for slot in range(model.slots):
                keeps = model is self.target and slot == 0 and not mode.reads
                kept += model.truncate(slot, len(prompt) if keeps else 0)
        engine = mode.make()
        if kept:
            engine.slots.choose(NONE, {})
            engine.slots.leave(0, prompt[:kept])
        return engine


def kinds(names: Sequence[str], drafter: str = "", *, details: bool = False) -> tuple[Kind, ...]:
    """Parse modes by name; plain decoding is always among them, first and last.

    The drafter is the proposer of the draft model or of the head that the model comes with.
    """
    names = names or _usual(drafter, details=details)
    return tuple(_kind(name, drafter) for name in dict.fromkeys((PLAIN, *names, AGAIN)))


def _usual(drafter: str, *, details: bool) -> Sequence[str]:
    if drafter in ("", ANY):
        return (AUTO, *(DETAILS if details else ()))
    return (LOOKUP, AUTO, *(name.format(drafter) for name in DETAILS_OF_DRAFTER if details))


def _kind(name: str, drafter: str) -> Kind:
    if name in (PLAIN, AGAIN):
        return Kind(name, (), 0)
    if name in (AUTO, LOOKUP):
        return Kind(name, registry.choose("auto", drafter if name == AUTO else ""), None)
    proposer, colon, depth = name.partition(":")
    if proposer not in registry.all_names() or (colon and not depth.isdecimal()):
        names = ", ".join((PLAIN, AUTO, LOOKUP, *registry.all_names()))
        raise UsageError(f"there is no mode {name!r}; known: {names}, or with a depth: ngram:8")
    if not 1 <= int(depth or DEPTH) <= MAX_TENTATIVE:
        raise UsageError(f"mode {name} has depth {depth}; it must be 1 to {MAX_TENTATIVE}")
    if proposer in (registry.DRAFT, *registry.HEADS) and drafter not in (ANY, proposer):
        drafter_kind = "draft model" if proposer == registry.DRAFT else "drafting head"
        raise UsageError(f"mode {name} needs a {drafter_kind}: give one with --draft")
    return Kind(name, (proposer,), int(depth or DEPTH))


@contextmanager
def load(
    files: PairFiles,
    request: Loading,
    names: Sequence[str],
    tell: TellPhase = unheard,
    *,
    details: bool = False,
) -> Iterator[tuple[Lineup, ResolvedPair]]:
    """Load a model, and what drafts for it if there is such a thing, for all these modes."""
    with files.examine(tell) as examined:
        drafter = examined.drafter
        lineup_kinds = kinds(names, drafter, details=details)
        options = with_long_drafts(request, examined.target)
        deepest = max(options.tentative, *(kind.depth or 0 for kind in lineup_kinds))
        used = any(drafter in kind.proposers for kind in lineup_kinds)
        options = replace(
            options,
            batch=max(options.batch, deepest + BATCH_MARGIN),
            tentative=deepest,
            head=examined.head if used else None,
        )
        resolved = resolve_pair(examined, options, request.limits, insists=True)
    with load_models(resolved, insists=True, tell=tell) as loaded:
        target = Watched(loaded.pair.target)
        pair = replace(loaded.pair, target=target)
        automatic = any(kind.depth is None for kind in lineup_kinds)
        costs = kept_calibrations.load_or_measure(loaded, tell).costs if automatic else Costs
        modes = tuple(_mode(kind, pair, costs, drafter) for kind in lineup_kinds)
        models = (target,) if pair.draft is None else (target, pair.draft)
        yield Lineup(target, models, modes, pair.match, drafter if used else ""), resolved


def _mode(kind: Kind, pair: Pair, costs: Callable[[], Costs], drafter: str) -> Mode:
    learnt = Depth(costs())  # stays with the mode, as it does with a program that goes on

    def make() -> Engine:
        depth = learnt if kind.depth is None else None
        proposer = ProposerFactory(kind.proposers, depth)(pair)
        most = pair.target.tentative if kind.depth is None else kind.depth
        parts = EngineParts(costs=depth.costs if depth else None)
        return Engine(pair.target, proposer, most, parts=parts)

    return Mode(kind.name, make, reads=drafter in kind.proposers)

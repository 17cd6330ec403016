"""The way from a name or a path to a runtime: find the weights, plan, load, choose proposers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.backend import Footprint, Options
from localspec.control.depth import Depth
from localspec.decoding.prompt_pace import MAX_GAP
from localspec.engine.engine import EngineParts
from localspec.errors import LocalSpecError, UsageError
from localspec.memory.planner import Limits
from localspec.models import engines
from localspec.prefix_cache.disk import Disk
from localspec.prefix_cache.ram import Ram
from localspec.prefix_cache.slot_files import SlotFiles
from localspec.prefix_cache.tiers import CacheTiers
from localspec.proposers import registry
from localspec.runtime import assembly, kept_calibrations
from localspec.runtime.advice import advice
from localspec.runtime.cache_identity import identity
from localspec.runtime.loaded_pair import (
    LoadedPair,
    Looks,
    PairFiles,
    ResolvedPair,
    checked,
    loaded,
)
from localspec.runtime.phases import TellPhase, unheard
from localspec.runtime.runtime import LoadedFacts, Runtime

LOG = logging.getLogger("localspec")
DEEP = 16  # tokens that are drafted at most where the depth is left open


@dataclass(frozen=True, slots=True)
class Loading:
    """The wishes for loading: engine options, proposers, draft length, memory limits.

    options: of the engine, as slots and context
    proposer: names with commas between them, "none", or "auto"
    depth: tokens to draft in a round; None: what pays, by measurement
    backend: the engine; "auto": a file or a folder decides for itself
    limits: the devices and the memory that may be used
    cache_dir: where long texts are kept for another time; None: nowhere
    cache_bytes: most bytes in that folder
    cache_ram: bytes of memory for texts that slots had to give up
    max_gap: seconds that replies may pause while a prompt is read
    """

    options: Options = field(default_factory=Options)
    proposer: str = "auto"
    depth: int | None = None
    backend: str = engines.AUTO
    limits: Limits = field(default_factory=Limits)
    cache_dir: Path | None = None
    cache_bytes: int = 8 << 30
    cache_ram: int = 0
    max_gap: float = MAX_GAP

    def __post_init__(self) -> None:
        engines.check(self.backend)
        registry.check(self.proposer)
        if self.depth is not None and not 0 <= self.depth <= self.options.tentative:
            raise UsageError(f"depth is {self.depth}; it must be 0 to {self.options.tentative}")

    @property
    def alone(self) -> bool:
        """Tell whether a drafter that comes with a model would have nothing to do."""
        drafters = {registry.DRAFT, *registry.HEADS}
        return self.proposer != "auto" and not drafters & set(registry.check(self.proposer))

    @property
    def insists(self) -> bool:
        """Tell whether a draft model that is given must be used."""
        return self.proposer != "auto"


def load(
    name_or_path: str | Path,
    draft: str | Path | None = None,
    loading: Loading | None = None,
    *,
    tell: TellPhase = unheard,
) -> Runtime:
    """Load a model, and a draft model for it if one is given and there is room for it.

    It takes seconds, and the first time longer; `tell` is called with each `Phase` of it.
    """
    loading = loading or Loading()
    places = PairFiles.of(name_or_path, draft, loading.backend, alone=loading.alone)
    return load_pair(places, loading, tell)


def load_pair(places: PairFiles, loading: Loading, tell: TellPhase = unheard) -> Runtime:
    """Load a pair whose files were found already."""
    with places.examined(tell) as looks:
        loading = deepened(looks[0].footprint, loading)
        wanted, pair = chosen(looks, loading)
    with ExitStack() as closing:
        found = closing.enter_context(loaded(pair, insists=loading.insists, tell=tell))
        tiers, files = kept(loading, found)
        parts = EngineParts(tiers=tiers, files=files, max_gap=loading.max_gap)
        if loading.depth is None and wanted:
            costs = kept_calibrations.calibrated(found, tell).costs()
            depth = Depth(costs, even=found.plan.options.shared is False)
            engine = assembly.automatic(found, wanted, depth, parts)
        else:
            engine = assembly.fixed(found, wanted, loading.depth or 0, parts)
        closing.callback(engine.close)
        hints = tuple(advice(found))
        known = LoadedFacts(found.pair.match, found.plan, wanted, found.known.target, hints)
        return Runtime(engine, closing.pop_all(), known)


def chosen(looks: Looks, loading: Loading) -> tuple[tuple[str, ...], ResolvedPair]:
    """Choose the proposers, and plan for them; a head that was not asked for must not hinder."""
    wanted, options = wished(looks, loading)
    try:
        pair = checked(looks, options, loading.limits, insists=loading.insists)
    except LocalSpecError as error:
        if not options.head or loading.insists:
            raise
        pair = checked(Looks(looks.target, None), loading.options, loading.limits, insists=False)
        LOG.warning("the drafting head is left away: %s", error)
    if options.head and not pair.plan.options.head:
        wanted = tuple(name for name in wanted if name not in registry.HEADS)
    return wanted, pair


def wished(looks: Looks, loading: Loading) -> tuple[tuple[str, ...], Options]:
    """Choose the proposers, and the options to plan with: with the head if one is to draft."""
    wanted = registry.names(loading.proposer, looks.drafter)
    head = looks.head if looks.drafter in wanted else None
    return wanted, replace(loading.options, head=head)


def kept(loading: Loading, loaded_pair: LoadedPair) -> tuple[CacheTiers, SlotFiles | None]:
    """Choose where the prefix cache and clients' slot files go."""
    ram, folder = Ram(loading.cache_ram), loading.cache_dir
    if folder is None:
        return CacheTiers(ram), None
    own, limit = identity(loaded_pair), loading.cache_bytes
    return CacheTiers(ram, Disk(folder, limit, own)), SlotFiles(folder / "slots", limit, own)


def deepened(look: Callable[[], Footprint], loading: Loading) -> Loading:
    """Make room for long drafts, where the depth is left open and they take no memory."""
    options = loading.options
    left_open = loading.depth is None and options.tentative == Options().tentative
    if not left_open or look().recurrent:
        return loading
    return replace(loading, options=replace(options, tentative=DEEP))

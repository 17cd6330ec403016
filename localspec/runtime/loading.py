"""The way from a name or a path to a runtime: find the weights, plan, load, choose proposers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from localspec.backend import Options
from localspec.control.depth import Depth
from localspec.corpus.corpus import Corpus, open_corpus
from localspec.costs import Costs
from localspec.decoding.prompt_pace import MAX_GAP
from localspec.engine.engine import Engine, EngineParts
from localspec.errors import LocalSpecError, UsageError
from localspec.media import Kind
from localspec.memory.planner import Limits, Watcher, current_machine
from localspec.models import engines
from localspec.models.recommended import prefixes, usual_sampling
from localspec.prefix_cache.disk import Disk
from localspec.prefix_cache.ram import Ram
from localspec.prefix_cache.slot_files import SlotFiles
from localspec.prefix_cache.tiers import CacheTiers
from localspec.proposer import Proposer
from localspec.proposers import registry
from localspec.proposers.corpus import CorpusProposer
from localspec.proposers.suffix import SuffixProposer
from localspec.runtime import kept_calibrations, pair_history
from localspec.runtime.cache_identity import identity
from localspec.runtime.loaded_pair import LoadedPair, advice, load_models
from localspec.runtime.long_drafts import with_long_drafts
from localspec.runtime.memory_relief import DraftModelRelief
from localspec.runtime.pair_files import ExaminedPair, PairFiles, require_text
from localspec.runtime.phases import TellPhase, unheard
from localspec.runtime.proposer_factory import ProposerFactory
from localspec.runtime.resolved_pair import ResolvedPair, resolve_pair
from localspec.runtime.runtime import LoadedFacts, Runtime
from localspec.runtime.vector_runtime import VectorRuntime

LOG = logging.getLogger("localspec")


@dataclass(frozen=True, slots=True)
class Loading:
    """How to load: engine options, proposers, draft length, memory limits.

    options: of the engine, as slots and context
    proposer: names with commas between them, "none", or "auto"
    depth: tokens to draft in a round; None: what pays, by measurement
    backend: the engine; "auto": a file or a folder decides for itself
    limits: the devices and the memory that may be used
    cache_dir: where long texts are kept for another time; None: nowhere
    cache_bytes: most bytes in that folder
    cache_ram: bytes of memory for texts that slots had to give up
    max_gap: seconds that replies may pause while a prompt is read
    corpus: files and folders of texts that replies may repeat
    learn: keep replies on this machine, and draft from them the next time
    shares_replies: whether a reply may be drafted from replies to others
    reply_owner: whose replies are kept and drafted from; those of others are kept apart
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
    corpus: tuple[Path, ...] = ()
    learn: bool = False
    shares_replies: bool = True
    reply_owner: str = ""

    def __post_init__(self) -> None:
        engines.check(self.backend)
        registry.parse(self.proposer)
        self._check_corpus()
        if self.depth is not None and not 0 <= self.depth <= self.options.tentative:
            raise UsageError(f"depth is {self.depth}; it must be 0 to {self.options.tentative}")

    def _check_corpus(self) -> None:
        if missing := [path for path in self.corpus if not Path(path).expanduser().exists()]:
            raise UsageError(f"there is no file or folder {missing[0]} for the corpus")
        if self.has_corpus and self.proposer == "none":
            raise UsageError("proposer is none, and a corpus is for drafts only: leave one away")
        if self.learn and not self.shares_replies:
            raise UsageError("replies that are not to be shared cannot be learned from")

    @property
    def has_corpus(self) -> bool:
        """Whether drafts come from texts on disk, too."""
        return bool(self.corpus) or self.learn

    @property
    def alone(self) -> bool:
        """Whether the model's own drafter would have nothing to do."""
        drafters = {registry.DRAFT, *registry.HEADS}
        return self.proposer != "auto" and not drafters & set(registry.parse(self.proposer))

    @property
    def insists(self) -> bool:
        """Whether the given draft model must be used."""
        return self.proposer != "auto"

    def projector_of(self, files: PairFiles) -> Path | None:
        """Return the projector that a model is loaded with if there is room for it."""
        beside = None if self.limits.text_only else files.target.projector
        return self.options.projector or beside

    def media_of(self, files: PairFiles) -> frozenset[Kind]:
        """Return the kinds of media that a model takes if there is room for its projector."""
        projector = self.projector_of(files)
        projectors = engines.spec(files.target.engine).projectors
        return projectors.describe(projector).kinds if projector and projectors else frozenset()


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
    files = PairFiles.locate(name_or_path, draft, loading.backend, alone=loading.alone)
    return load_pair(files, loading, tell)


def load_pair(
    files: PairFiles,
    loading: Loading,
    tell: TellPhase = unheard,
    note: Callable[[LoadedPair, TellPhase], str] = pair_history.note,
) -> Runtime:
    """Load a pair by its files; `note` says what fell since a version changed."""
    if loading.options.pooling:
        engines.vector_engine(files.target.engine)  # refuse before anything is loaded
    with files.examine(tell) as examined:
        require_text(examined.target.footprint())
        resolved = resolve(examined, loading)
    with ExitStack() as closing:
        loaded = closing.enter_context(load_models(resolved, insists=loading.insists, tell=tell))
        fall, costs = "", None
        if is_priced(loaded, loading):
            fall = note(loaded, tell)
            costs = kept_calibrations.load_or_measure(loaded, tell).costs()
            closing.callback(kept_calibrations.reconsider, loaded, costs)
        corpus = None
        if loading.has_corpus:
            tokenizer = loaded.pair.target.tokenizer
            corpus = open_corpus(
                loading.corpus, tokenizer, learns=loading.learn, owner=loading.reply_owner
            )
            closing.callback(corpus.close)
        engine = build_engine(loaded, loading, costs, corpus)
        closing.callback(engine.close)
        resolved = loaded.resolved
        vectors = load_vectors_beside(loaded)
        if vectors:
            closing.callback(vectors.close)
        facts = LoadedFacts(
            loaded.pair.match,
            resolved.plan,
            resolved.proposers,
            resolved.target,
            (*advice(loaded), *([fall] if fall else [])),
            corpus,
            usual_sampling(files.target.name, resolved.target.footprint),
        )
        return Runtime(engine, closing.pop_all(), facts, vectors)


def load_vectors_beside(loaded: LoadedPair) -> VectorRuntime | None:
    """Have the target turn texts into vectors, too, where that was asked for."""
    target, options = loaded.resolved.target, loaded.plan.options
    if not options.pooling:
        return None
    beside = engines.vector_engine(target.files.engine).vectors_beside(loaded.pair.target, options)
    return VectorRuntime(beside, LoadedFacts(target=target), prefixes(target.files.name))


def resolve(examined: ExaminedPair, loading: Loading) -> ResolvedPair:
    """Choose the proposers, and plan for them; a head that was not asked for must not hinder."""
    proposers, options = choose_proposers(examined, loading)
    try:
        resolved = resolve_pair(examined, options, loading.limits, insists=loading.insists)
    except LocalSpecError as error:
        if not options.head or loading.insists:
            raise
        target_alone, options = examined._replace(draft=None), replace(options, head=None)
        resolved = resolve_pair(target_alone, options, loading.limits, insists=False)
        proposers = without_heads(proposers)
        LOG.warning("the drafting head is left away: %s", error)
    if options.head and not resolved.plan.options.head:
        proposers = without_heads(proposers)
    return replace(resolved, proposers=proposers)


def choose_proposers(examined: ExaminedPair, loading: Loading) -> tuple[tuple[str, ...], Options]:
    """Choose the proposers, and the options to plan with: with the head if it is to draft."""
    proposers = registry.choose(loading.proposer, examined.drafter, corpus=loading.has_corpus)
    head = examined.head if examined.drafter in proposers else None
    options = with_long_drafts(loading, examined.target)
    return proposers, replace(options, head=head)


def without_heads(proposers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in proposers if name not in registry.HEADS)


def is_priced(loaded: LoadedPair, loading: Loading) -> bool:
    """Whether measured costs decide the depth."""
    return loading.depth is None and bool(loaded.resolved.proposers)


def may_begin_drafted(loaded: LoadedPair) -> bool:
    """Whether a prompt's last piece may carry a draft.

    Engines round differently in batches of other widths, and a recurrent model would have to stop
    before the draft to be able to go back.
    """
    recurrent = loaded.resolved.target.footprint.recurrent
    return not (recurrent or loaded.plan.options.bit_exact)


def build_engine(
    loaded: LoadedPair, loading: Loading, costs: Costs | None, corpus: Corpus | None = None
) -> Engine:
    """Build the engine of a pair, in which costs decide the depth where there are any."""
    target, proposers = loaded.pair.target, loaded.resolved.proposers
    parts, max_depth, depth = parts_of(loaded, loading), loading.depth or 0, None
    if costs:
        depth = Depth(costs, even=loaded.plan.options.shared is False)
        parts = replace(parts, costs=costs, first_drafts=may_begin_drafted(loaded))
        max_depth = target.tentative
    ready: dict[str, Proposer] = {} if loading.shares_replies else {"suffix": SuffixProposer()}
    if corpus:
        ready[registry.CORPUS] = CorpusProposer(corpus)
    make_proposer = ProposerFactory(proposers, depth, ready=ready)
    if loaded.pair.draft is None and target.head is None:
        return Engine(target, make_proposer(loaded.pair), max_depth, parts=parts)
    look = partial(current_machine, loaded.resolved.target.engine.name, Limits())
    # One object in two parts: it proposes, and when memory is short the engine has it give up what
    # drafts.
    relief = DraftModelRelief(loaded, make_proposer, Watcher(loaded.plan, look))
    return Engine(target, relief, max_depth, parts=replace(parts, relief=relief))


def parts_of(loaded: LoadedPair, loading: Loading) -> EngineParts:
    """Choose the places of the prefix cache and of slot files, and the longest pause."""
    ram, folder, max_bytes = Ram(loading.cache_ram), loading.cache_dir, loading.cache_bytes
    if folder is None:
        return EngineParts(tiers=CacheTiers(ram), max_gap=loading.max_gap)
    key = identity(loaded)
    return EngineParts(
        tiers=CacheTiers(ram, Disk(folder, max_bytes, key)),
        files=SlotFiles(folder / "slots", max_bytes, key),
        max_gap=loading.max_gap,
    )

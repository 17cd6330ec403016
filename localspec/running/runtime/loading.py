"""The way from a name or a path to a runtime: find the weights, plan, load, choose proposers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from localspec.base.errors import LocalSpecError
from localspec.core.control.depth import Depth
from localspec.core.control.priced_proposer import REACH
from localspec.core.corpus.corpus import Corpus, open_corpus
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers import registry
from localspec.core.proposers.corpus import CorpusProposer
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine, EngineParts
from localspec.interfaces.abilities import NotingModel
from localspec.interfaces.backend import Options
from localspec.interfaces.costs import Costs
from localspec.interfaces.proposer import Proposer
from localspec.running.memory.planner import Limits, Watcher, current_machine
from localspec.running.models.locate import locate
from localspec.running.models.recommended import prefixes, usual_sampling
from localspec.running.runtime import kept_calibrations, pair_history, tuning
from localspec.running.runtime.cache_identity import identity
from localspec.running.runtime.drafter_choice import pair_files
from localspec.running.runtime.loaded_facts import LoadedFacts
from localspec.running.runtime.loaded_pair import LoadedPair, advice, load_models
from localspec.running.runtime.loading_options import Loading as Loading
from localspec.running.runtime.long_drafts import with_long_drafts
from localspec.running.runtime.memory_relief import DraftModelRelief
from localspec.running.runtime.pair_files import ExaminedPair, PairFiles, require_text
from localspec.running.runtime.phases import TellPhase, unheard
from localspec.running.runtime.proposer_factory import ProposerFactory
from localspec.running.runtime.resolved_pair import ResolvedPair, resolve_pair
from localspec.running.runtime.runtime import Runtime
from localspec.running.runtime.vector_runtime import VectorRuntime

LOG = logging.getLogger("localspec")


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
    files = pair_files(locate(str(name_or_path), loading.backend), draft, loading)
    return load_pair(files, loading, tell)


def load_pair(
    files: PairFiles,
    loading: Loading,
    tell: TellPhase = unheard,
    note: Callable[[LoadedPair, TellPhase], str] = pair_history.check_for_slowdown,
) -> Runtime:
    """Load a pair by its files; `note` says what fell since a version changed."""
    if loading.options.pooling:
        files.target.engine.vector_engine()  # refuse before anything is loaded
    with files.examine(tell) as examined:
        require_text(examined.target.footprint())
        resolved, tuned = resolve_tuned(examined, loading)
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
        resolved, target = loaded.resolved, loaded.pair.target
        vectors = load_vectors_beside(loaded)
        if vectors:
            closing.callback(vectors.close)
        notices = target.take_notices() if isinstance(target, NotingModel) else []
        sentences = filter(None, (files.reason, tuned, *advice(loaded, costs), fall))
        facts = LoadedFacts(
            loaded.pair.match,
            resolved.plan,
            resolved.proposers,
            resolved.target,
            (*sentences, *notices),
            corpus,
            usual_sampling(files.target.name, resolved.target.footprint),
        )
        return Runtime(engine, closing.pop_all(), facts, vectors)


def load_vectors_beside(loaded: LoadedPair) -> VectorRuntime | None:
    """Have the target turn texts into vectors, too, where that was asked for."""
    target, options = loaded.resolved.target, loaded.plan.options
    if not options.pooling:
        return None
    beside = target.files.engine.vector_engine().vectors_beside(loaded.pair.target, options)
    return VectorRuntime(beside, LoadedFacts(target=target), prefixes(target.files.name))


def resolve_tuned(examined: ExaminedPair, loading: Loading) -> tuple[ResolvedPair, str]:
    """Plan with the options that were measured to be fastest; return what that changes, in words.

    There may be less room for them than there was.
    """
    if kept := tuning.find_tuning(examined.target.files, loading):
        try:
            return resolve(examined, kept.apply(loading)), str(kept)
        except LocalSpecError as error:
            LOG.warning("loaded as usual, not as tuned: %s", error)
    return resolve(examined, loading), ""


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
        LOG.warning("the drafting head is left out: %s", error)
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
    look = partial(current_machine, loaded.resolved.target.files.engine, Limits())
    # One object in two parts: it proposes, and when memory is short the engine has it give up what
    # drafts.
    hopeless = partial(is_drafter_hopeless, depth, proposers)
    relief = DraftModelRelief(loaded, make_proposer, Watcher(loaded.plan, look), hopeless=hopeless)
    return Engine(target, relief, max_depth, parts=replace(parts, relief=relief))


def is_drafter_hopeless(depth: Depth | None, proposers: Sequence[str]) -> bool:
    """Whether the draft model or the head could not even pay if it were always right."""
    drafters = {registry.DRAFT, *registry.HEADS} & set(proposers)
    return depth is not None and any(depth.is_hopeless(by, REACH) for by in drafters)


def parts_of(loaded: LoadedPair, loading: Loading) -> EngineParts:
    """Choose the places of the prefix cache and of slot files, and the longest pause."""
    ram, folder, max_bytes = Ram(loading.cache_ram), loading.cache_dir, loading.cache_bytes
    key = identity(loaded) if folder else ""
    disk = Disk(folder, max_bytes, key) if folder else None
    if disk and loading.restores:
        disk.read_newest()
    return EngineParts(
        tiers=CacheTiers(ram, disk),
        files=SlotFiles(folder / "slots", max_bytes, key) if folder else None,
        max_gap=loading.max_gap,
        rounds_by_width=not loaded.is_equal_to_the_bit,
    )

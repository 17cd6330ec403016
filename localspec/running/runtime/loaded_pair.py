"""A pair in memory, and its draft model for as long as there is memory for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from localspec.base.errors import OutOfMemory
from localspec.core.pairing.masked import Masked
from localspec.core.pairing.pair import Pair
from localspec.core.pairing.translated import Translated
from localspec.core.pairing.vocabulary import match
from localspec.interfaces.backend import Footprint, Model, Options
from localspec.interfaces.costs import Costs
from localspec.running.memory.plan import Plan
from localspec.running.memory.planner import Limits
from localspec.running.models.trial import ResolvedModel
from localspec.running.runtime.draft_price import warn_of_price
from localspec.running.runtime.pair_files import PairFiles, require_text
from localspec.running.runtime.phases import Phase, TellPhase, unheard
from localspec.running.runtime.resolved_pair import ResolvedPair, resolve_pair


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """The models of a pair, and what was resolved before they were loaded."""

    pair: Pair
    resolved: ResolvedPair

    @property
    def plan(self) -> Plan:
        return self.resolved.plan

    @property
    def models(self) -> tuple[ResolvedModel, ...]:
        """The loaded models, the target first; a head in a file of its own is one, too."""
        draft = self.resolved.draft
        head = self.plan.options.head if self.pair.target.head is not None else None
        if self.pair.draft is None and draft and draft.files.path != head:
            draft = None
        return (self.resolved.target, draft) if draft else (self.resolved.target,)

    @property
    def is_equal_to_the_bit(self) -> bool:
        """Whether a text has the same bits with and without drafts, and beside any others."""
        footprint, options = self.resolved.target.footprint, self.plan.options
        keeps_all = not footprint.recurrent and not footprint.window
        even = footprint.even and options.own_products and self.plan.on_host
        return options.bit_exact or (even and keeps_all and not options.adapters)

    def without_drafter(self) -> LoadedPair:
        """Free the draft model or the drafting head; return the pair without it."""
        if self.pair.draft is not None:
            self.pair.draft.close()
        if self.pair.target.head is not None:
            self.pair.target.free_head()
        return replace(self, pair=Pair(self.pair.target))

    def with_draft(self, tell: TellPhase = unheard) -> LoadedPair:
        """Load the planned draft model, if there is one; return the pair with it."""
        if self.resolved.draft is None or self.plan.drafting is None:
            return self
        draft = load_weights(self.resolved.draft, self.plan.drafting, tell)
        try:
            mask = self.resolved.draft.footprint.mask_token
            pair = pair_models(self.pair.target, draft, mask)
            return replace(self, pair=replace(pair, draft_context=self.plan.drafting.draft.context))
        except BaseException:
            draft.close()
            raise


@contextmanager
def resolve_and_load(files: PairFiles, options: Options, limits: Limits) -> Iterator[LoadedPair]:
    """Load a pair by its files."""
    with files.examine() as examined:
        require_text(examined.target.footprint())
        resolved = resolve_pair(examined, options, limits, insists=True)
    with load_models(resolved, insists=True) as loaded:
        yield loaded


@contextmanager
def load_models(
    resolved: ResolvedPair, *, insists: bool, tell: TellPhase = unheard
) -> Iterator[LoadedPair]:
    """Load a pair by plan; without its draft model where memory falls short after all."""
    with ExitStack() as closing:
        target = load_weights(resolved.target, resolved.plan.options, tell)
        closing.callback(target.close)
        loaded = LoadedPair(Pair(target), resolved)
        try:
            loaded = loaded.with_draft(tell)
        except OutOfMemory as error:
            if insists:
                raise
            plan = resolved.plan.without_draft(str(error))
            loaded = replace(loaded, resolved=replace(resolved, plan=plan))
        if loaded.pair.draft is not None:
            closing.callback(loaded.pair.draft.close)
        yield loaded


def load_weights(resolved: ResolvedModel, options: Options, tell: TellPhase = unheard) -> Model:
    """Load one model; report how much of it was read, if its engine does."""
    path, engine = resolved.files.path, resolved.files.engine.backend()
    tell(Phase("reading", path.name))
    return engine.load(path, options, lambda share: tell(Phase("reading", path.name, share)))


def pair_models(target: Model, draft_model: Model, mask: int | None = None) -> Pair:
    """Pair two models, translating drafts if the vocabularies differ.

    Masks are for a draft model of the same vocabulary: words in other tokens have no fixed number.
    """
    vocabularies = match(target.tokenizer, draft_model.tokenizer)
    if vocabularies.difference is not None or draft_model.vocabulary != target.vocabulary:
        draft_model = Translated(draft_model, target.tokenizer, vocabularies, target.vocabulary)
    elif mask is not None and mask < draft_model.vocabulary:
        draft_model = Masked(draft_model, mask)
    return Pair(target, draft_model, vocabularies)


def uneven_weights(footprint: Footprint, options: Options) -> str:
    """Count the weights that keep texts from being equal to the bit, where they are to be."""
    even = footprint.even and options.own_products
    return footprint.uneven if options.bit_exact and not even else ""


def advice(loaded_pair: LoadedPair, costs: Costs | None = None) -> Iterator[str]:
    """Advise on what was asked for and cannot bring what it is meant to."""
    resolved = loaded_pair.resolved
    target = resolved.target.footprint
    options = loaded_pair.plan.options
    near_ties = "--bit-exact: texts may still differ at near-ties, since"
    by_width = "round by the width of a batch"
    if uneven := uneven_weights(target, options):
        yield f"{near_ties} {uneven} {by_width}; weights in Q8_0 throughout do not"
    if options.bit_exact and options.adapters:
        which = "a model in Q8_0 that they are merged into"
        yield f"{near_ties} adapters {by_width}; {which} does not"
    if resolved.draft is not None and loaded_pair.pair.draft is not None:
        draft, on_host = resolved.draft.footprint, loaded_pair.plan.on_host
        if warning := warn_of_price(draft, target, costs, on_host=on_host):
            yield warning

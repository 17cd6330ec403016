"""Load a pair by plan, and its draft model for as long as there is memory for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from localspec.backend import Model, Options
from localspec.errors import OutOfMemory, UsageError
from localspec.memory.plan import Plan
from localspec.memory.planner import Limits
from localspec.models import trial
from localspec.models.engines import AUTO, backend, spec
from localspec.models.locate import ModelFiles, locate
from localspec.models.sources import place
from localspec.models.trial import Examined, ResolvedModel
from localspec.pairing.masked import Masked
from localspec.pairing.pair import Pair
from localspec.pairing.translated import Translated
from localspec.pairing.vocabulary import match
from localspec.proposers.registry import DRAFT, HEAD
from localspec.runtime.phases import Phase, TellPhase, unheard
from localspec.runtime.working_plan import working_plan


class Looks(NamedTuple):
    """The files of a pair, looked at: a target, and what drafts for it."""

    target: Examined
    draft: Examined | None  # a draft model, or a drafting head in a file of its own

    @property
    def drafter(self) -> str:
        """The proposer that these files are for, if they are for one."""
        if self.draft is not None:
            return self.draft.footprint().drafter_for(self.target.found.path) or DRAFT
        return HEAD if self.target.footprint().drafting_layers else ""

    @property
    def head(self) -> Path | None:
        """The file of the drafting head, if there is one."""
        if self.drafter in ("", DRAFT):
            return None
        return (self.draft or self.target).found.path


@dataclass(frozen=True, slots=True)
class PairFiles:
    """The files of a pair."""

    target: ModelFiles
    draft: ModelFiles | None = None

    @classmethod
    def of(
        cls, target: str | Path, draft: str | Path | None, wish: str, *, alone: bool = False
    ) -> PairFiles:
        """Find the draft model: a given one, or the one pulled with the target unless `alone`.

        One that is given by its path may be for the other engine.
        """
        return cls.around(locate(str(target), wish), draft, wish, alone=alone)

    @classmethod
    def around(
        cls, target: ModelFiles, draft: str | Path | None, wish: str, *, alone: bool = False
    ) -> PairFiles:
        """The draft model that is given, or with which the target was pulled unless it is `alone`.

        One that is given by its path may be for another engine.
        """
        if draft is not None:
            by_path = place(draft).exists()
            return cls(target, locate(str(draft), AUTO if by_path else wish))
        if target.draft is not None and not alone:
            return cls(target, ModelFiles(target.engine, target.draft))
        return cls(target)

    @contextmanager
    def examined(self, tell: TellPhase = unheard) -> Iterator[Looks]:
        """Look at the files; tell when one is tried."""

        def begins(path: Path) -> None:
            tell(Phase("trying", path.name))

        with ExitStack() as looking:
            target = looking.enter_context(trial.examined(self.target, begins=begins))
            draft = None
            if self.draft is not None:
                same = target.engine if self.draft.engine == self.target.engine else None
                draft = looking.enter_context(
                    trial.examined(self.draft, engine=same, begins=begins)
                )
            yield Looks(target, draft)


@dataclass(frozen=True, slots=True)
class ResolvedPair:
    """A pair that runs here, and how it is to be loaded: all that was found out on the way."""

    target: ResolvedModel
    draft: ResolvedModel | None
    plan: Plan


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """A loaded pair, and what was known of it before."""

    pair: Pair
    known: ResolvedPair

    @property
    def plan(self) -> Plan:
        return self.known.plan

    @property
    def models(self) -> tuple[ResolvedModel, ...]:
        """The loaded models, the target first; a head in a file of its own is one, too."""
        draft = self.known.draft
        if self.pair.draft is None and draft and not self._has_head(draft.files.path):
            draft = None
        return (self.known.target, draft) if draft else (self.known.target,)

    def _has_head(self, path: Path) -> bool:
        return self.pair.target.head is not None and self.plan.options.head == path

    def alone(self) -> LoadedPair:
        """Free the draft model or the drafting head; return the pair without it."""
        if self.pair.draft is not None:
            self.pair.draft.close()
        if self.pair.target.head is not None:
            self.pair.target.free_head()
        return replace(self, pair=Pair(self.pair.target))

    def completed(self, tell: TellPhase = unheard) -> LoadedPair:
        """Load the draft model that was planned, if one was; return the pair with it."""
        if self.known.draft is None or self.plan.drafting is None:
            return self
        draft = load(self.known.draft, self.plan.drafting, tell)
        try:
            mask = self.known.draft.footprint.mask_token
            return replace(self, pair=matched(self.pair.target, draft, mask))
        except BaseException:
            draft.close()
            raise


@contextmanager
def opened(
    places: PairFiles, options: Options, limits: Limits, *, insists: bool = True
) -> Iterator[LoadedPair]:
    """Load a pair; without room, and unless one `insists`, leave the draft model out."""
    with places.examined() as looks:
        known = checked(looks, options, limits, insists=insists)
    with loaded(known, insists=insists) as found:
        yield found


@contextmanager
def loaded(
    known: ResolvedPair, *, insists: bool, tell: TellPhase = unheard
) -> Iterator[LoadedPair]:
    """Load a pair by plan; without its draft model where memory falls short after all."""
    with ExitStack() as closing:
        target = load(known.target, known.plan.options, tell)
        closing.callback(target.close)
        found = LoadedPair(Pair(target), known)
        try:
            found = found.completed(tell)
        except OutOfMemory as error:
            if insists:
                raise
            plan = known.plan.without_draft(str(error))
            found = replace(found, known=replace(known, plan=plan))
        if found.pair.draft is not None:
            closing.callback(found.pair.draft.close)
        yield found


def checked(looks: Looks, options: Options, limits: Limits, *, insists: bool) -> ResolvedPair:
    """Plan for a pair, and check in other processes that its files run like that."""
    target, draft = looks
    if options.members > 1 and not spec(target.found.engine).member:
        raise UsageError(f"{target.found.engine} runs a model in one process only, not in a group")
    plan = working_plan(target, draft, options, limits, insists=insists)
    return ResolvedPair(target.resolved(), draft.resolved() if draft else None, plan)


def load(known: ResolvedModel, options: Options, tell: TellPhase = unheard) -> Model:
    """Load a model; tell how much of it was read, if its engine does."""
    path, engine = known.files.path, backend(known.engine.name)
    tell(Phase("reading", path.name))
    if not spec(known.engine.name).tells_progress:
        return engine.load(path, options)
    return engine.load(path, options, lambda share: tell(Phase("reading", path.name, share)))


def matched(target: Model, draft_model: Model, mask: int | None = None) -> Pair:
    """Pair two models, translating drafts if the vocabularies differ.

    Masks are for a draft model of the same vocabulary: words in other tokens have no fixed number.
    """
    found = match(target.tokenizer, draft_model.tokenizer)
    if found.difference is not None or draft_model.vocabulary != target.vocabulary:
        draft_model = Translated(draft_model, target.tokenizer, found, target.vocabulary)
    elif mask is not None and mask < draft_model.vocabulary:
        draft_model = Masked(draft_model, mask)
    return Pair(target, draft_model, found)

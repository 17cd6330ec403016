"""Load a pair by plan, and its draft model for as long as there is memory for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.backend import Model, Options
from localspec.errors import OutOfMemory
from localspec.memory.plan import Plan
from localspec.memory.planner import Limits, planned, there
from localspec.models import trial
from localspec.models.engines import backend
from localspec.models.entry import Wish
from localspec.models.locate import ModelFiles, locate
from localspec.models.sources import place
from localspec.models.trial import Examined
from localspec.pairing.pair import Pair
from localspec.pairing.translated import Translated
from localspec.pairing.vocabulary import match

Looks = tuple[Examined, Examined | None]  # at a target and a draft model


@dataclass(frozen=True, slots=True)
class PairFiles:
    """The files of a pair."""

    target: ModelFiles
    draft: ModelFiles | None = None

    @classmethod
    def of(
        cls, target: str | Path, draft: str | Path | None, wish: Wish, *, alone: bool = False
    ) -> PairFiles:
        """The draft model that is given, or with which the target was pulled unless it is `alone`.

        One that is given by its path may be for the other engine.
        """
        found = locate(str(target), wish)
        if draft is not None:
            by_path = place(draft).exists()
            return cls(found, locate(str(draft), "auto" if by_path else wish))
        if found.draft is not None and not alone:
            return cls(found, ModelFiles(found.engine, found.draft))
        return cls(found)

    @contextmanager
    def examined(self) -> Iterator[Looks]:
        with ExitStack() as looking:
            target = looking.enter_context(trial.examined(self.target))
            draft = looking.enter_context(trial.examined(self.draft)) if self.draft else None
            yield target, draft


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """A loaded pair, where it came from and how it was planned."""

    pair: Pair
    places: PairFiles
    plan: Plan

    def alone(self) -> LoadedPair:
        """Free the draft model; return the pair without it."""
        if self.pair.draft is not None:
            self.pair.draft.close()
        return replace(self, pair=Pair(self.pair.target))

    def completed(self) -> LoadedPair:
        """Load the draft model that was planned, if one was; return the pair with it."""
        if self.places.draft is None or self.plan.drafting is None:
            return self
        draft = load(self.places.draft, self.plan.drafting)
        try:
            return replace(self, pair=matched(self.pair.target, draft))
        except BaseException:
            draft.close()
            raise


@contextmanager
def opened(
    places: PairFiles, options: Options, limits: Limits, *, insists: bool = True
) -> Iterator[LoadedPair]:
    """A pair; unless one `insists` on the draft model, it is left away where there is no room."""
    with places.examined() as looks:
        plan = checked(looks, options, limits, insists=insists)
    with loaded(places, plan, insists=insists) as found:
        yield found


@contextmanager
def loaded(places: PairFiles, plan: Plan, *, insists: bool) -> Iterator[LoadedPair]:
    """A pair by plan; without its draft model where memory for it is not given after all."""
    with ExitStack() as closing:
        target = load(places.target, plan.options)
        closing.callback(target.close)
        found = LoadedPair(Pair(target), places, plan)
        try:
            found = found.completed()
        except OutOfMemory as error:
            if insists:
                raise
            found = replace(found, plan=plan.without_draft(str(error)))
        if found.pair.draft is not None:
            closing.callback(found.pair.draft.close)
        yield found


def checked(looks: Looks, options: Options, limits: Limits, *, insists: bool) -> Plan:
    """Plan for a pair, and see in other processes that its files run like that."""
    target, draft = looks
    plan = planned(target, draft, options, limits, insists=insists)
    room = there(target.found.engine, limits).room
    target.check_runs(plan.options, room)
    if draft is not None and plan.drafting is not None:
        draft.check_runs(plan.drafting, room)
    return plan


def load(found: ModelFiles, options: Options) -> Model:
    return backend(found.engine).load(found.path, options)


def matched(target: Model, draft: Model) -> Pair:
    """A pair whose draft model is translated if it has another vocabulary."""
    found = match(target.tokenizer, draft.tokenizer)
    if found.difference is not None or draft.vocabulary != target.vocabulary:
        draft = Translated(draft, target.tokenizer, found, target.vocabulary)
    return Pair(target, draft, found)

"""The files of a pair: the target's, and those of what drafts for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from localspec.base.errors import UsageError
from localspec.core.proposers.registry import DRAFT, HEAD
from localspec.interfaces.footprint import DOES, Footprint
from localspec.running.models import trial
from localspec.running.models.engines import AUTO
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.sources import expand_home
from localspec.running.models.trial import Examined, Step
from localspec.running.runtime.phases import Phase, TellPhase, unheard

NO_DRAFT = "none"  # in place of a draft model's name


class ExaminedPair(NamedTuple):
    """The facts about both files of a pair, each by its engine."""

    target: Examined
    draft: Examined | None  # a draft model, or a drafting head in a file of its own

    @property
    def drafter(self) -> str:
        """The proposer of the drafting file, or of the head in the target; empty without one."""
        if self.draft is not None:
            return self.draft.footprint().drafter or DRAFT
        return HEAD if self.target.footprint().drafting_layers else ""

    @property
    def head(self) -> Path | None:
        """The file of the drafting head, if there is one."""
        if self.drafter in ("", DRAFT):
            return None
        return (self.draft or self.target).files.path


def require_text(footprint: Footprint) -> None:
    """Refuse a model of whole texts where text is to be continued."""
    if footprint.kind != "text":
        raise UsageError(
            f"{footprint.path.name} {DOES[footprint.kind]}, and continues none: `localspec serve` "
            "and `localspec embed` are for it"
        )


@dataclass(frozen=True, slots=True)
class PairFiles:
    """The files of a pair.

    reason: why this one drafts, where neither the user nor a pull decided that
    """

    target: ModelFiles
    draft: ModelFiles | None = None
    reason: str = ""

    @classmethod
    def locate(
        cls, target: str | Path, draft: str | Path | None, backend: str, *, alone: bool = False
    ) -> PairFiles:
        """Find a target by its name or path, and its draft model as `for_target` does."""
        return cls.for_target(locate(str(target), backend), draft, backend, alone=alone)

    @classmethod
    def for_target(
        cls, target: ModelFiles, draft: str | Path | None, backend: str, *, alone: bool = False
    ) -> PairFiles:
        """Find the draft model: the one named, else unless `alone` the one pulled with the target.

        A draft model that is named by its path may be for another engine.
        """
        target = target.with_projector()
        if draft == NO_DRAFT:
            return cls(target)
        if draft is not None:
            by_path = expand_home(draft).exists()
            return cls(target, locate(str(draft), AUTO if by_path else backend))
        if target.draft is not None and not alone:
            return cls(target, ModelFiles(target.engine, target.draft))
        return cls(target)

    @contextmanager
    def examine(self, tell: TellPhase = unheard) -> Iterator[ExaminedPair]:
        """Open both files to examine them; `tell` hears when one is tried."""

        def begins(step: Step, path: Path) -> None:
            tell(Phase(step, path.name))

        with ExitStack() as closing:
            target = closing.enter_context(trial.examine(self.target, begins=begins))
            draft = None
            if self.draft is not None:
                same = target.engine if self.draft.engine == self.target.engine else None
                draft = closing.enter_context(trial.examine(self.draft, engine=same, begins=begins))
            yield ExaminedPair(target, draft)

"""Facts about a model that is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.core.corpus.corpus import Corpus
from localspec.core.pairing.vocabulary import Match
from localspec.core.sampling.default_sampling import UsualSampling
from localspec.core.sampling.parameters import GREEDY
from localspec.running.memory.machine import Pool
from localspec.running.memory.plan import Plan
from localspec.running.memory.planner import Limits, current_machine, in_use
from localspec.running.models.trial import ResolvedModel

GREEDY_TEXT = UsualSampling(GREEDY, "of a model that was not loaded from files")


@dataclass(frozen=True, slots=True)
class LoadedFacts:
    """Facts about a model, established by loading it."""

    pairing: Match | None = None  # how the draft model's vocabulary fits, if there is one
    plan: Plan | None = None  # by which the models were loaded
    proposers: Sequence[str] | None = None  # by name; None: whoever the engine has
    target: ResolvedModel | None = None
    advice: Sequence[str] = ()  # who drafts by measurement, and wishes that cannot be met
    corpus: Corpus | None = None  # texts on disk that replies may repeat
    usual: UsualSampling = GREEDY_TEXT  # of replies whose caller chooses nothing

    def devices(self) -> list[Pool]:
        """Measure the memories in use by the models; empty where they are not known."""
        if not self.plan or not self.target:
            return []
        return in_use(self.plan, current_machine(self.target.files.engine, Limits()))


NO_FACTS = LoadedFacts()

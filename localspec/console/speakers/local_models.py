"""Models on this machine as speakers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.console.options.reply import with_usual
from localspec.console.questions.interactive_load import load_and_report, locate_or_pull
from localspec.console.speakers.local import LocalSpeaker
from localspec.core.proposers.descriptions import in_words
from localspec.core.proposers.registry import DRAFT
from localspec.core.requests.settings import Settings
from localspec.core.sampling.default_sampling import NOBODY, UsualSampling
from localspec.running.memory.machine import size
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.recommended import ThoughtDefaults, thought_defaults
from localspec.running.pulling.at_hand import at_hand, who_sees
from localspec.running.runtime.drafter_choice import pair_files
from localspec.running.runtime.loaded_facts import LoadedFacts
from localspec.running.runtime.loading import Loading


@dataclass(frozen=True, slots=True)
class LocalModels:
    """Opens models in this process, one at a time."""

    loading: Loading
    draft: str | None
    settings: Settings  # of the command line
    set_by_user: frozenset[str]  # fields of sampling that the command line sets
    checked: dict[str, ModelFiles] = field(default_factory=dict)  # for the model opened next
    usual_samplings: dict[str, UsualSampling] = field(default_factory=dict)  # of opened models

    def names(self) -> Sequence[str]:
        return list(self._sizes())

    def about(self, name: str) -> str:
        """Return the size of its weights."""
        return self._sizes().get(name, "")

    def who_sees(self) -> str:
        return who_sees(self.loading.backend)

    def _sizes(self) -> dict[str, str]:
        """Map the models that are here to their sizes."""
        return {model.name: size(model.bytes) for model in at_hand(self.loading.backend)}

    def check(self, name: str) -> None:
        self.checked[name] = locate(name, self.loading.backend)

    def pull(self, name: str) -> None:
        """Download a model if it is not here and the user agrees."""
        self.checked[name] = locate_or_pull(name, self.loading)

    def open(self, name: str) -> LocalSpeaker:
        files = self.checked.pop(name, None) or locate(name, self.loading.backend)
        pair = pair_files(files, self.draft, self.loading)
        runtime = load_and_report(name, pair, self.loading)
        self.usual_samplings[name] = runtime.facts.usual
        return LocalSpeaker(name, runtime, list(describe(name, runtime.facts, runtime.context)))

    def usual(self, name: str) -> Settings:
        sampling = self.usual_samplings.get(name, NOBODY).sampling
        settings = with_usual(sampling, self.settings, self.set_by_user)
        chosen = ThoughtDefaults(settings.reasoning_budget, settings.reasoning_budget_message)
        budget, message = thought_defaults(name, chosen)
        return replace(settings, reasoning_budget=budget, reasoning_budget_message=message)


def describe(name: str, facts: LoadedFacts, context: int) -> Iterator[str]:
    """Describe the loaded model, its proposers and what they read, and the memory it takes."""
    proposers = [
        proposer for proposer in facts.proposers or () if facts.pairing or proposer != DRAFT
    ]
    if facts.target:
        kind = f"{facts.target.footprint.quantisation}, {facts.target.files.engine}"
        yield f"{Path(name).name} ({kind}), {context:,} tokens of context, {in_words(proposers)}"
    yield f"sampling: {facts.usual}"
    if facts.plan:
        pools = facts.plan.pools
        yield ", ".join(f"{size(facts.plan.taken(p))} of {size(p.free)} in {p.name}" for p in pools)
    if facts.corpus:
        yield from map(str, facts.corpus.facts())

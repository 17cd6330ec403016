"""Models on this machine as speakers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.chat.speakers.local import Local
from localspec.commands.interactive_load import tell
from localspec.engine.settings import Settings
from localspec.memory.machine import size
from localspec.models import store
from localspec.models.engines import inspect
from localspec.models.entry import Wish
from localspec.models.locate import locate
from localspec.models.recommended import advised
from localspec.proposers.registry import DRAFT
from localspec.runtime.loading import Loading, load
from localspec.runtime.runtime import Runtime
from localspec.sampling.parameters import Sampling


@dataclass(frozen=True, slots=True)
class Here:
    """Opens models in this process, one at a time."""

    loading: Loading
    draft: str | None
    settings: Settings  # as the command line wishes them
    given: frozenset[str]  # of the ways to draw, those that it set

    def names(self) -> Sequence[str]:
        return [f"{each.name}:{each.weights}" for each in store.everything()]

    def check(self, name: str) -> None:
        locate(name, self.loading.backend)

    def open(self, name: str) -> Local:
        runtime = load(name, self.draft, self.loading)
        tell(runtime)
        return Local(name, runtime, list(described(name, self.loading.backend, runtime)))

    def usual(self, name: str) -> Settings:
        return drawn(name, self.settings, self.given, Sampling())


def drawn(name: str, wished: Settings, given: frozenset[str], usual: Sampling) -> Settings:
    """Combine the wished settings with the sampling that the model's makers recommend."""
    sampling = advised(name, usual)
    sampling = replace(sampling, **{each: getattr(wished.sampling, each) for each in given})
    return replace(wished, sampling=sampling)


def described(name: str, wish: Wish, runtime: Runtime) -> Iterator[str]:
    """Describe the loaded model, its proposers and the memory it takes."""
    file, known = inspect(name, wish), runtime.known
    proposers = [each for each in known.guessers or () if known.pairing or each != DRAFT]
    drafting = f"drafts by {', '.join(proposers)}" if proposers else "no drafts"
    engine = locate(name, wish).engine
    yield (
        f"{Path(name).name} ({file.quantisation}, {engine}), "
        f"{runtime.context:,} tokens of context, {drafting}"
    )
    if known.plan:
        pools = known.plan.pools
        yield ", ".join(f"{size(known.plan.taken(p))} of {size(p.free)} in {p.name}" for p in pools)

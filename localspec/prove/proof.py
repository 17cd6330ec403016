"""A proof from beginning to end: plain texts, speculative texts, and tests of samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from localspec.engine import request
from localspec.engine.settings import Settings
from localspec.pairing.pair import Pair
from localspec.proposer import Proposer
from localspec.proposers.silent import Silent
from localspec.prove import prompts
from localspec.prove.effort import GREEDY, TextSpeed
from localspec.prove.greedy import Comparison, compare, sizes
from localspec.prove.proposers import Slips, drawn, usual
from localspec.prove.room import roomy, stages
from localspec.prove.runs import ProofReply, plain
from localspec.prove.sampled import LEAST, MOST, PLAIN, FitTest, SampleCounts, enough, hold, throws
from localspec.prove.spots import spots
from localspec.prove.verdict import Verdict, judge
from localspec.runtime.loaded_pair import PairFiles
from localspec.runtime.loading import Loading
from localspec.sampling.parameters import Sampling
from localspec.templates.message import Message

T = TypeVar("T")


class ProofWatch(Protocol):
    """Shows the progress of a proof, and ends it early if the user wishes so."""

    @property
    def stopped(self) -> bool: ...

    def __call__(
        self,
        items: Iterable[T],
        length: int,
        label: str,
        seconds: float = ...,
        least: int = ...,
    ) -> Iterator[T]:
        """Pass items through: so many, or those that these seconds bring, and a least number."""
        ...

    def listening(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Wishes:
    conversations: Sequence[Sequence[Message]]
    tokens: int | None = None  # most of a reply; None: by speed
    samples: int | None = None  # a proposer; None: as many as the time brings
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=1.0))
    seconds: float = math.inf  # that all of it may take


def attempt(
    target: str,
    draft: str | None,
    loading: Loading,
    wishes: Wishes,
    watch: ProofWatch,
    clock: Callable[[], float] = time.monotonic,
) -> Verdict:
    """Load the models for each number of slots to try, and try everything with each."""
    compared: list[Comparison] = []
    tallies: dict[str, SampleCounts] = {}
    tests: list[FitTest] = []
    places = PairFiles.of(target, draft, loading.backend)
    ways, end = stages(places), clock() + wishes.seconds
    for at, slots in enumerate(ways):
        with roomy(places, loading, slots) as models, watch.listening():
            left = max(end - clock(), 0.0)
            replies, found = greedy(models.pair, wishes, watch, left * GREEDY / (len(ways) - at))
            compared += found
            if slots == ways[-1]:
                left = max(end - clock(), 0.0)
                tallies, tests = sampled(models.pair, wishes, replies, watch, left)
        if watch.stopped:
            break
    exact, temperature = loading.options.bit_exact, wishes.sampling.temperature
    return judge(compared, tallies, tests, temperature, bit_exact=exact)


def greedy(
    models: Pair, wishes: Wishes, watch: ProofWatch, seconds: float = math.inf
) -> tuple[list[ProofReply], list[Comparison]]:
    """Write the plain replies, and compare speculative ones with them."""
    model = models.target
    texts = prompts.encode(model.tokenizer, wishes.conversations)
    for text in texts:
        request.check(model, text, Settings(max_tokens=wishes.tokens))
    names = len(usual(models)) + 1  # and slips
    effort = TextSpeed.of(model, texts[0]).effort(len(texts), names, seconds, wishes.tokens)
    texts = texts[: effort.prompts]
    replies = list(watch(plain(model, texts, effort.tokens), len(texts), "plain texts"))
    proposers = {**usual(models), "slips": lambda: Slips(replies)}
    length = len(proposers) * len(sizes(model, len(texts))) * len(texts)
    compared = compare(model, replies, proposers, effort.tokens)
    return replies, list(watch(compared, length, "speculative texts"))


def sampled(
    models: Pair,
    wishes: Wishes,
    replies: Sequence[ProofReply],
    watch: ProofWatch,
    seconds: float = math.inf,
) -> tuple[dict[str, SampleCounts], list[FitTest]]:
    """Sample after beginnings of the replies, and test the samples."""
    model, sampling = models.target, wishes.sampling
    places = spots(replies, max(1, model.slots // 2))
    proposers: dict[str, Proposer] = {PLAIN: Silent()}
    proposers |= {name: make() for name, make in usual(models).items()}
    proposers["drawn"] = drawn(model, places, sampling)
    thrown, count = throws(model, places, proposers, sampling), len(proposers)
    tallies = {name: SampleCounts() for name in proposers}
    found = enough(thrown, count, wishes.samples, seconds)
    for throw in watch(found, count * (wishes.samples or MOST), "samples", seconds, count * LEAST):
        tallies[throw.proposer].add(throw)
    return tallies, hold(model, tallies, sampling)

"""A proof from beginning to end: plain texts, speculative texts, and tests of samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from localspec.apps.prove import prompts
from localspec.apps.prove.effort import GREEDY, TextSpeed, within
from localspec.apps.prove.greedy import Comparison, compare, sizes
from localspec.apps.prove.proposers import Slips, drawn_drafts, usual_proposers
from localspec.apps.prove.runs import ProofReply, plain
from localspec.apps.prove.sampled import (
    MAX_SAMPLES,
    PLAIN,
    FitTest,
    Sample,
    SampleCounts,
    SampleEffort,
    draw_samples,
    fit_tests,
    sample_effort,
)
from localspec.apps.prove.spots import spots
from localspec.apps.prove.verdict import Verdict, judge
from localspec.base.system.signals import interrupted
from localspec.console.progress.time_left import TimeLeft
from localspec.core.pairing.pair import Pair
from localspec.core.proposers.silent import Silent
from localspec.core.requests import request
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.formats.templates.message import Message
from localspec.interfaces.proposer import Proposer
from localspec.running.models import trial
from localspec.running.runtime.loaded_pair import LoadedPair, resolve_and_load
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles

SLOTS = 6  # three replies at once, and as many slots for what `refeed` puts aside
CONTEXT = 2048  # tokens for each slot, unless the user sets another number

T = TypeVar("T")


class ProofProgress:
    """Shows the time left of a proof on stderr.

    Ctrl-C ends what is under way early; a second one ends the program.
    """

    def __init__(self) -> None:
        self.stopped = False

    def __call__(
        self,
        items: Iterable[T],
        length: int,
        label: str,
        seconds: float = math.inf,
        least: int = 0,
    ) -> Iterator[T]:
        """Pass items through: so many, or those that these seconds bring, and a least number."""
        if self.stopped:
            return
        for item in TimeLeft(label, length, seconds, least)(items):
            yield item
            if self.stopped:
                return

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C wait for the model, whose state must stay known."""

        def stop() -> None:
            self.stopped = True

        with interrupted(stop):
            yield


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """The texts and samples to try, and the time for them."""

    conversations: Sequence[Sequence[Message]]
    tokens: int | None = None  # most of a reply; None: by speed
    samples: int | None = None  # per proposer; None: as many as the time brings
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=1.0))
    seconds: float = math.inf  # that all of it may take


def attempt(
    target: str,
    draft: str | None,
    loading: Loading,
    plan: ProofPlan,
    watch: ProofProgress,
    clock: Callable[[], float] = time.monotonic,
) -> Verdict:
    """Load the models for each number of slots to try, and try everything with each."""
    compared: list[Comparison] = []
    tallies: dict[str, SampleCounts] = {}
    tests: list[FitTest] = []
    files = PairFiles.locate(target, draft, loading.backend)
    counts, end = slot_counts(files), clock() + plan.seconds
    is_exact = True
    for at, slots in enumerate(counts):
        with open_with_spare_slots(files, loading, slots) as models, watch.listening():
            is_exact = is_exact and models.is_equal_to_the_bit
            left = max(end - clock(), 0.0) / (len(counts) - at)
            replies, comparisons = greedy(models.pair, plan, watch, left * GREEDY)
            compared += comparisons
            if slots == counts[-1]:
                left = max(end - clock(), 0.0)
                tallies, tests = sampled(models.pair, plan, replies, watch, left)
        if watch.stopped:
            break
    return judge(compared, tallies, tests, plan.sampling.temperature, bit_exact=is_exact)


def greedy(
    models: Pair, plan: ProofPlan, watch: ProofProgress, seconds: float = math.inf
) -> tuple[list[ProofReply], list[Comparison]]:
    """Write the plain replies, and compare speculative ones with them."""
    model, end = models.target, time.monotonic() + seconds
    texts = prompts.encode(model.tokenizer, plan.conversations)
    for text in texts:
        request.check(model, text, Settings(max_tokens=plan.tokens))
    names = len(usual_proposers(models)) + 1  # and slips
    effort = TextSpeed.measure(model, texts[0]).effort(len(texts), names, seconds, plan.tokens)
    texts = texts[: effort.prompts]
    replies = list(watch(plain(model, texts, effort.tokens), len(texts), "plain texts"))
    proposers = {**usual_proposers(models), "slips": lambda: Slips(replies)}
    length = len(proposers) * len(sizes(model, len(texts))) * len(texts)
    left, least = end - time.monotonic(), len(proposers)
    compared = within(compare(model, replies, proposers, effort.tokens), left, least)
    return replies, list(watch(compared, length, "speculative texts", left, least))


def sampled(
    models: Pair,
    plan: ProofPlan,
    replies: Sequence[ProofReply],
    watch: ProofProgress,
    seconds: float = math.inf,
) -> tuple[dict[str, SampleCounts], list[FitTest]]:
    """Sample after beginnings of the replies, and test the samples."""
    model, sampling = models.target, plan.sampling
    places = spots(replies, max(1, model.slots // 2))
    proposers: dict[str, Proposer] = {PLAIN: Silent()}
    proposers |= {name: make() for name, make in usual_proposers(models).items()}
    proposers["drawn"] = drawn_drafts(model, places, sampling)
    effort, end = SampleEffort([*proposers]), time.monotonic() + seconds
    if not plan.samples and math.isfinite(seconds):
        trial_run = draw_samples(model, places[:1], proposers, sampling)
        a_sample = seconds_of_a_sample(trial_run, len(proposers))
        effort = sample_effort([*proposers], (end - time.monotonic()) / a_sample)
    proposers = {name: proposers[name] for name in effort.proposers}
    stream = draw_samples(model, places[: 1 if effort.hurried else None], proposers, sampling)
    tallies = {name: SampleCounts() for name in proposers}
    most = len(proposers) * (plan.samples or MAX_SAMPLES)
    least = most if plan.samples else len(proposers) * effort.least
    left = end - time.monotonic()
    stream = within(islice(stream, most), left, least)
    for sample in watch(stream, most, "samples", left, least):
        tallies[sample.proposer].add(sample)
    return tallies, fit_tests(model, tallies, sampling)


def seconds_of_a_sample(stream: Iterator[Sample], count: int) -> float:
    """Measure by so many samples, after as many others, which read the texts to sample at."""
    list(islice(stream, count))
    begun = time.monotonic()
    list(islice(stream, count))
    return max(time.monotonic() - begun, 1e-9) / count


def open_with_spare_slots(
    files: PairFiles, loading: Loading, slots: int
) -> AbstractContextManager[LoadedPair]:
    with files.examine() as examined:
        head = examined.head
    context = loading.options.context or slots * CONTEXT
    options = replace(loading.options, slots=slots, context=context, head=head)
    return resolve_and_load(files, options, loading.limits)


def slot_counts(files: PairFiles) -> list[int]:
    """Choose with how many slots to load, one after the other; files are inspected, not loaded.

    A recurrent model that has a single slot takes tokens back in a way of its own.
    """
    with trial.examine(files.target) as model:
        return [1, SLOTS] if model.footprint().recurrent else [SLOTS]

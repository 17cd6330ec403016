"""Tests of whether tokens sampled with speculation follow the target's own distribution.

A sample is one real round: propose, forward, verify, truncate, after a text that the slot keeps.
The first token of a round, and the second where the first draft token was accepted, are tested
against the distribution that the model itself states in a batch of the same width, with nothing
drafted or taken back.

Simulated power, for a draft that should be accepted in 30% of the rounds: with 2,000 samples of a
proposer, a rate of 38% is found 8 times of 10, and one of 40% 299 times of 300; with 700 samples,
42% is found 9 times of 10. If nothing is wrong, one proof in a thousand fails.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, product

from localspec.apps.prove.chi_square import Fit, Observed, fit
from localspec.apps.prove.spots import Case, Spot, reference_logits
from localspec.base.tokens import History
from localspec.core.decoding.generation import Ending, Generation
from localspec.core.decoding.round import conclude, propose, run
from localspec.core.decoding.turn import Turn
from localspec.core.proposers.registry import HEADS
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Model
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.proposer import Proposer

DRAFT_LENGTH = 2  # tokens
MAX_SAMPLES, MIN_SAMPLES = 2000, 150  # samples per proposer, where no number is given
HURRIED_SAMPLES = 50  # the fewest, at one spot, where there is no time for that many of two
FIRST = ("draft-model", *HEADS, "drawn", "ngram")  # proposers that are left out last
PLAIN = "plain"  # sampling without drafts: a control
MIN_CASE_SAMPLES = 25  # samples of a case that justify computing its distribution


@dataclass(frozen=True, slots=True)
class Sample:
    """The draft and the tokens of one round."""

    proposer: str
    spot: Spot
    drafted: tuple[int, ...]
    emitted: tuple[int, ...]


@dataclass(slots=True)
class SampleCounts:
    """Counts of the tokens of one proposer's rounds, by case."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    cases: defaultdict[Case, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, sample: Sample) -> None:
        self.rounds += 1
        self.drafted += len(sample.drafted)
        self.accepted += len(sample.emitted) - 1
        for at, token in enumerate(sample.emitted[:DRAFT_LENGTH]):
            case = Case(sample.spot, 1 + len(sample.drafted), sample.drafted[:at])
            self.cases[case][token] += 1


@dataclass(frozen=True, slots=True)
class FitTest:
    """The fit of one proposer's samples to the target's distributions."""

    proposer: str
    token: int  # of the round, from 1
    samples: int
    fit: Fit


def draw_samples(
    model: Model, spots: Sequence[Spot], proposers: Mapping[str, Proposer], sampling: Sampling
) -> Iterator[Sample]:
    """Sample for ever, in turns. The seeds are always the same, so a failure can be repeated."""
    turns = cycle(product(spots, proposers.items()))
    for seed, (spot, (name, proposer)) in enumerate(turns):
        yield _sample(model, spot, name, proposer, Sampler(sampling, seed, spot.text))


def _sample(model: Model, spot: Spot, name: str, proposer: Proposer, sampler: Sampler) -> Sample:
    held = len(spot.text) - 1
    g = Generation(
        History(spot.text[:-1]),
        sampler,
        Ending(len(spot.text) + DRAFT_LENGTH + 1),
        model.tokenizer.token_bytes,
        depth=min(DRAFT_LENGTH, model.tentative),
        slot=spot.slot,
    )
    g.history.append(int(spot.text[-1]))  # of a reply: few proposers draft where one begins
    g.cached = model.truncate(g.slot, held)
    while g.cached < held:
        _round(model, proposer, Turn(g, min(held - g.cached, model.batch), 0, emits=False))
    drafted = _round(model, proposer, Turn(g, 1, g.depth, emits=True))
    proposer.release(g.slot)
    return Sample(name, spot, drafted, tuple(g.tokens[len(spot.text) :].tolist()))


def _round(model: Model, proposer: Proposer, turn: Turn) -> tuple[int, ...]:
    """Run one round of one sequence; return the draft."""
    [draft] = propose(proposer, [turn])
    [logits] = run(model, [turn], [draft])
    conclude(model, turn, draft, logits)
    return tuple(draft.tokens.tolist())


@dataclass(frozen=True, slots=True)
class SampleEffort:
    """Names those whose samples are drawn, and says how many are."""

    proposers: Sequence[str]
    least: int = MIN_SAMPLES  # of each, however long that takes
    hurried: bool = False  # all at one spot


def sample_effort(proposers: Sequence[str], samples: float) -> SampleEffort:
    """Choose those for whom there is time, if so many samples can be drawn."""
    if samples >= MIN_SAMPLES * len(proposers):
        return SampleEffort(proposers)
    by_need = sorted(proposers, key=[*FIRST, *proposers].index)
    some = by_need[: max(2, int(samples / MIN_SAMPLES))]
    hurried = samples < MIN_SAMPLES * len(some)
    return SampleEffort(some, HURRIED_SAMPLES if hurried else MIN_SAMPLES, hurried)


def fit_tests(
    model: Model, tallies: Mapping[str, SampleCounts], sampling: Sampling
) -> list[FitTest]:
    """Test samples against the target's distributions; too certain ones make no test."""
    distributions: dict[Case, Distribution] = {}
    fits = []
    for (name, tally), at in product(tallies.items(), range(DRAFT_LENGTH)):
        samples = []
        for case, counts in tally.cases.items():
            if len(case.accepted) == at and counts.total() >= MIN_CASE_SAMPLES:
                if case not in distributions:
                    distributions[case] = filters.distribution(
                        sampling, reference_logits(model, case)
                    )
                samples.append(Observed(distributions[case], counts))
        fits.append(FitTest(name, at + 1, sum(s.counts.total() for s in samples), fit(samples)))
    return [test for test in fits if test.fit.freedom]

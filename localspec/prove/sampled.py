"""Do tokens sampled with speculation follow the target's own law?

A sample is one real round: propose, forward, verify, truncate, after a text that the slot keeps.
The first token of a round, and the second where the first was guessed right, are held against the
law that the model itself states in a batch of the same width, with nothing guessed or taken back.

What this finds, simulated for a guess that should be accepted in 30% of the rounds: with 2,000
samples of a guesser, 8 times of 10 if it is 38%, and 299 times of 300 if it is 40%; with 700
samples 9 times of 10 if it is 42%. If nothing is wrong, one proof in a thousand fails.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, product

from localspec.backend import Model
from localspec.decoding.generation import Ending, Generation
from localspec.decoding.round import Turn, conclude, run
from localspec.proposer import Proposer
from localspec.prove.chi_square import Fit, Sample, fit
from localspec.prove.spots import Case, Spot, state
from localspec.sampling.distribution import Distribution
from localspec.sampling.parameters import Sampling
from localspec.sampling.sampler import Sampler
from localspec.tokens import History

GUESS = 2  # tokens a round
MOST, LEAST, SECONDS = 2000, 400, 60  # samples a guesser, where no number is wished
PLAIN = "plain"  # sampling without guesses: a control
FEWEST = 25  # samples of one case that are worth working out its law


@dataclass(frozen=True, slots=True)
class Throw:
    """What one round guessed and said."""

    guesser: str
    spot: Spot
    guessed: tuple[int, ...]
    said: tuple[int, ...]


@dataclass(slots=True)
class Tally:
    """What the rounds of one guesser said."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    cases: defaultdict[Case, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, throw: Throw) -> None:
        self.rounds += 1
        self.drafted += len(throw.guessed)
        self.accepted += len(throw.said) - 1
        for at, token in enumerate(throw.said[:GUESS]):
            case = Case(throw.spot, 1 + len(throw.guessed), throw.guessed[:at])
            self.cases[case][token] += 1


@dataclass(frozen=True, slots=True)
class Trial:
    """How well what one guesser's rounds said fits the target's laws."""

    guesser: str
    token: int  # of the round, from 1
    samples: int
    fit: Fit


def throws(
    model: Model, spots: Sequence[Spot], guessers: Mapping[str, Proposer], sampling: Sampling
) -> Iterator[Throw]:
    """Sample for ever, in turns. The seeds are the same every time: what fails, fails again."""
    turns = cycle(product(spots, guessers.items()))
    for seed, (spot, (name, proposer)) in enumerate(turns):
        yield _throw(model, spot, name, proposer, Sampler(sampling, seed, spot.text))


def _throw(model: Model, spot: Spot, name: str, proposer: Proposer, sampler: Sampler) -> Throw:
    known = len(spot.text) - 1
    g = Generation(
        History(spot.text),
        sampler,
        Ending(len(spot.text) + GUESS + 1),
        model.tokenizer.token_bytes,
        depth=min(GUESS, model.tentative),
        slot=spot.slot,
    )
    g.cached = model.truncate(g.slot, known)
    while g.cached < known:
        _round(model, proposer, Turn(g, min(known - g.cached, model.batch), 0, emits=False))
    guessed = _round(model, proposer, Turn(g, 1, g.depth, emits=True))
    proposer.release(g.slot)
    return Throw(name, spot, guessed, tuple(g.tokens[len(spot.text) :].tolist()))


def _round(model: Model, proposer: Proposer, turn: Turn) -> tuple[int, ...]:
    """One round of one sequence; what was guessed."""
    [(turn, draft, logits)] = run(model, proposer, [turn])
    conclude(model, turn, draft, logits)
    return tuple(draft.tokens.tolist())


def enough(
    thrown: Iterator[Throw],
    guessers: int,
    samples: int | None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Throw]:
    """As many of each guesser as wished; else `MOST` or what a minute brings, if not too few."""
    end = clock() + SECONDS
    for count, throw in enumerate(islice(thrown, guessers * (samples or MOST)), 1):
        yield throw
        if samples is None and count >= guessers * LEAST and clock() > end:
            return


def hold(model: Model, tallies: Mapping[str, Tally], sampling: Sampling) -> list[Trial]:
    """Hold what was said against the target's laws; what is too certain makes no test."""
    laws: dict[Case, Distribution] = {}
    found = []
    for (name, tally), at in product(tallies.items(), range(GUESS)):
        samples = []
        for case, counts in tally.cases.items():
            if len(case.accepted) == at and counts.total() >= FEWEST:
                if case not in laws:
                    laws[case] = sampling.distribution(state(model, case))
                samples.append(Sample(laws[case], counts))
        found.append(Trial(name, at + 1, sum(s.counts.total() for s in samples), fit(samples)))
    return [test for test in found if test.fit.freedom]

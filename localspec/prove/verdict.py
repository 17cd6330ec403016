"""What a proof found, and whether it is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from localspec.prove.greedy import Comparison
from localspec.prove.sampled import PLAIN, Tally, Trial

LEVEL = 0.001  # how often any of the tests may fail by chance


@dataclass(frozen=True, slots=True)
class Guesses:
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Greedy:
    texts: int
    equal: int
    guesses: Mapping[str, Guesses]
    differences: Sequence[Comparison]


@dataclass(frozen=True, slots=True)
class Sampled:
    temperature: float
    rounds: int
    guesses: Mapping[str, Guesses]
    limit: float  # a p-value below is a failure
    tests: Sequence[Trial]


@dataclass(frozen=True, slots=True)
class Verdict:
    proven: bool
    faults: Sequence[str]  # why not
    greedy: Greedy
    sampled: Sampled


def judge(
    compared: Sequence[Comparison],
    tallies: Mapping[str, Tally],
    tests: Sequence[Trial],
    temperature: float,
    *,
    bit_exact: bool = False,
) -> Verdict:
    """Judge a proof; where texts are to be equal to the bit, rounding excuses nothing."""
    greedy, sampled = _greedy(compared), _sampled(tallies, tests, temperature)
    faults = [*greedy_faults(greedy), *sampled_faults(sampled)]
    if bit_exact and greedy.differences:
        count = len(greedy.differences)
        faults.insert(0, f"{count} of {greedy.texts} greedy texts are not equal to the bit")
    return Verdict(not faults, faults, greedy, sampled)


def _greedy(compared: Sequence[Comparison]) -> Greedy:
    differing = [each for each in compared if each.difference]
    names = dict.fromkeys(each.guesser for each in compared)
    guesses = {
        name: Guesses(
            sum(each.drafted for each in compared if each.guesser == name),
            sum(each.accepted for each in compared if each.guesser == name),
        )
        for name in names
    }
    return Greedy(len(compared), len(compared) - len(differing), guesses, differing)


def _sampled(tallies: Mapping[str, Tally], tests: Sequence[Trial], temperature: float) -> Sampled:
    guesses = {name: Guesses(t.drafted, t.accepted) for name, t in tallies.items() if name != PLAIN}
    rounds = sum(tally.rounds for tally in tallies.values())
    return Sampled(temperature, rounds, guesses, LEVEL / max(len(tests), 1), tests)


def greedy_faults(greedy: Greedy) -> Iterator[str]:
    defects = sum(each.defective for each in greedy.differences)
    if defects:
        yield f"{defects} of {greedy.texts} greedy texts differ, and rounding does not explain it"
    if not greedy.texts:
        yield "no greedy text was compared"
    else:
        yield from silence("greedy text", greedy.guesses)


def sampled_faults(sampled: Sampled) -> Iterator[str]:
    for test in sampled.tests:
        if test.fit.p < sampled.limit:
            blame = ", which is no fault of speculation's" if test.guesser == PLAIN else ""
            yield (
                f"what {test.guesser} samples is not the target's law (token {test.token} of a "
                f"round: p {test.fit.p:.2g}){blame}"
            )
    if not sampled.rounds:
        yield "nothing was sampled"
        return
    tested = {test.guesser for test in sampled.tests}
    for name in sampled.guesses:
        if name not in tested:
            yield f"{name} was sampled too seldom, or from laws too certain, to be tested"
    yield from silence("sampled text", sampled.guesses)


def silence(where: str, guesses: Mapping[str, Guesses]) -> Iterator[str]:
    """What was never put to the test: a guesser that was silent, no right guess, no wrong one."""
    for name, each in guesses.items():
        if not each.drafted:
            yield f"{name} guessed nothing in {where}, so nothing is shown of it"
    drafted = sum(each.drafted for each in guesses.values())
    accepted = sum(each.accepted for each in guesses.values())
    if drafted and not accepted:
        yield f"no guess was right in {where}, so nothing is shown of accepting"
    if drafted and accepted == drafted:
        yield f"no guess was wrong in {where}, so nothing is shown of rejecting"

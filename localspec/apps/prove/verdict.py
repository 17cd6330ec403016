"""The verdict of a proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from localspec.apps.prove.greedy import Comparison
from localspec.apps.prove.sampled import PLAIN, FitTest, SampleCounts

LEVEL = 0.001  # how often any of the tests may fail by chance


@dataclass(frozen=True, slots=True)
class Drafts:
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class GreedyVerdict:
    texts: int
    equal: int
    drafts: Mapping[str, Drafts]
    differences: Sequence[Comparison]


@dataclass(frozen=True, slots=True)
class SampledVerdict:
    temperature: float
    rounds: int
    drafts: Mapping[str, Drafts]
    limit: float  # a p-value below is a failure
    tests: Sequence[FitTest]


@dataclass(frozen=True, slots=True)
class Verdict:
    proven: bool
    faults: Sequence[str]  # why not
    greedy: GreedyVerdict
    sampled: SampledVerdict


def judge(
    compared: Sequence[Comparison],
    tallies: Mapping[str, SampleCounts],
    tests: Sequence[FitTest],
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


def _greedy(compared: Sequence[Comparison]) -> GreedyVerdict:
    differing = [comparison for comparison in compared if comparison.difference]
    names = dict.fromkeys(comparison.proposer for comparison in compared)
    drafts = {
        name: Drafts(
            sum(c.drafted for c in compared if c.proposer == name),
            sum(c.accepted for c in compared if c.proposer == name),
        )
        for name in names
    }
    return GreedyVerdict(len(compared), len(compared) - len(differing), drafts, differing)


def _sampled(
    tallies: Mapping[str, SampleCounts], tests: Sequence[FitTest], temperature: float
) -> SampledVerdict:
    drafts = {name: Drafts(t.drafted, t.accepted) for name, t in tallies.items() if name != PLAIN}
    rounds = sum(tally.rounds for tally in tallies.values())
    return SampledVerdict(temperature, rounds, drafts, LEVEL / max(len(tests), 1), tests)


def greedy_faults(greedy: GreedyVerdict) -> Iterator[str]:
    defects = sum(comparison.defective for comparison in greedy.differences)
    if defects:
        yield f"{defects} of {greedy.texts} greedy texts differ, and rounding does not explain it"
    if not greedy.texts:
        yield "no greedy text was compared"
    else:
        yield from untested("greedy text", greedy.drafts)


def sampled_faults(sampled: SampledVerdict) -> Iterator[str]:
    for test in sampled.tests:
        if test.fit.p < sampled.limit:
            blame = ", which is no fault of speculation's" if test.proposer == PLAIN else ""
            yield (
                f"samples of {test.proposer} do not follow the target's distribution (token "
                f"{test.token} of a round: p {test.fit.p:.2g}){blame}"
            )
    if not sampled.rounds:
        yield "nothing was sampled"
        return
    tested = {test.proposer for test in sampled.tests}
    for name in sampled.drafts:
        if name not in tested:
            yield f"{name} was sampled too seldom, or from distributions too certain, to be tested"
    yield from untested("sampled text", sampled.drafts)


def untested(where: str, drafts: Mapping[str, Drafts]) -> Iterator[str]:
    """Yield what was never tested: a silent proposer, no accepted token, no rejected one."""
    for name, counts in drafts.items():
        if not counts.drafted:
            yield f"{name} drafted nothing in {where}, so it is not tested"
    drafted = sum(counts.drafted for counts in drafts.values())
    accepted = sum(counts.accepted for counts in drafts.values())
    if drafted and not accepted:
        yield f"no draft token was accepted in {where}, so accepting is not tested"
    if drafted and accepted == drafted:
        yield f"no draft token was rejected in {where}, so rejecting is not tested"

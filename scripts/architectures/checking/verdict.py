"""The verdict on a model in one form, by the answers of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from architectures.checking.answers import NEAR, ModelAnswer, Parting, parting
from architectures.checking.facts import untrue

Word = Literal[
    "same", "near-tie", "rounding", "refused", "differs", "untrue", "memory", "no engine"
]
WORST_FIRST: tuple[Word, ...] = ("differs", "untrue", "memory", "rounding", "near-tie")
FAR = float("inf")
FAILURES: tuple[Word, ...] = ("refused", "differs", "untrue", "memory")
MIB = 1 << 20
# Of a process, whatever it loads: graphs, stacks of threads, Python's own objects.
APART = 64 * MIB
Answers = Sequence[ModelAnswer]


@dataclass(frozen=True, slots=True)
class ModelResults:
    """The results of LocalSpec on a model; only the fault where it could not load it."""

    fault: str
    info: Mapping[str, object] | str
    answers: Mapping[str, Answers]
    planned: int = 0  # bytes
    grown: int = 0
    drafted: int = 0  # tokens

    @classmethod
    def of(cls, data: Mapping[str, object]) -> ModelResults:
        info, fault = data["info"], str(data["fault"])
        ways = ("plain", "drafting", "together")
        answers = {way: read(data[way]) for way in ways if way in data}
        sizes = (number(data, name) for name in ("planned", "grown", "drafted"))
        return cls(fault, info if isinstance(info, dict) else str(info), answers, *sizes)


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    word: Word
    faults: tuple[str, ...] = ()
    near: int = 0  # answers that part from the engine's where it rounds
    planned: int = 0
    grown: int = 0
    drafted: int = 0
    untold: tuple[str, ...] = ()  # figures that `info` omits

    @property
    def fails(self) -> bool:
        return self.word in FAILURES


Margins = tuple[float, float]  # as the engine says it, and the least in batches of other widths
Weigh = Callable[[Sequence[Parting]], Sequence[Margins]]


def judge(
    theirs: Answers, results: ModelResults, expected: Mapping[str, object], weigh: Weigh
) -> ModelVerdict:
    """Compare LocalSpec's answers with the engine's, and its `info` with the expected facts."""
    if results.fault:
        return ModelVerdict("refused", (results.fault,))
    parted = list(partings(theirs, results))
    weighed = dict(weights(parted, weigh))
    judged = [(parting, weighed.get(parting)) for parting in parted]
    words = {word_of(margins) for _, margins in judged}
    differs = [
        describe(parting, margins) for parting, margins in judged if word_of(margins) == "differs"
    ]
    wrong, much = list(wrong_facts(results, expected)), list(unplanned(results))
    words |= {"untrue"} if wrong else set()
    words |= {"memory"} if much else set()
    untold = set(expected) - set(results.info if isinstance(results.info, Mapping) else ())
    return ModelVerdict(
        next((word for word in WORST_FIRST if word in words), "same"),
        (*differs, *wrong, *much),
        near=len(parted) - len(differs),
        planned=results.planned,
        grown=results.grown,
        drafted=results.drafted,
        untold=tuple(sorted(untold)),
    )


def partings(theirs: Answers, results: ModelResults) -> Iterator[Parting]:
    """Find the place where each differing answer parts."""
    for way, answers in results.answers.items():
        for at, ours in enumerate(answers):
            engine = next(answer for answer in theirs if answer.text == ours.text)
            if parted := parting(f"{way} {at}", engine, ours):
                yield parted


def weights(parted: Sequence[Parting], weigh: Weigh) -> Iterator[tuple[Parting, Margins]]:
    """List the margins of answers that part at a token."""
    at_tokens = [parting for parting in parted if parting.token is not None]
    if at_tokens:
        yield from zip(at_tokens, weigh(at_tokens), strict=True)


def word_of(margins: Margins | None) -> Word:
    """Name the word for parting by so much."""
    first, least = margins or (FAR, FAR)
    if first <= NEAR:
        return "near-tie"
    return "rounding" if least <= NEAR else "differs"


def describe(parted: Parting, margins: Margins | None) -> str:
    if margins is None:
        return f"{parted.way}: another prompt, or an early end, after {parted.at} tokens"
    first, least = margins
    return f"{parted.way}: token {parted.at} is {first:.2f} below the best, at least {least:.2f}"


def wrong_facts(results: ModelResults, expected: Mapping[str, object]) -> Iterator[str]:
    if isinstance(results.info, Mapping):
        yield from untrue(results.info, expected)
    else:
        yield f"info fails: {results.info}"


def unplanned(results: ModelResults) -> Iterator[str]:
    """Tell where a process grew by more than was planned, or planned by far too much."""
    planned, grown = results.planned / MIB, results.grown / MIB
    if results.grown > results.planned * 1.1 + APART or results.planned > 2 * results.grown + APART:
        yield f"{planned:.1f} MiB planned, grown by {grown:.1f} MiB"


def read(answers: object) -> Answers:
    """Read kept answers."""
    return [ModelAnswer.of(answer) for answer in answers] if isinstance(answers, list) else []


def number(data: Mapping[str, object], name: str) -> int:
    count = data.get(name, 0)
    return count if isinstance(count, int) else 0

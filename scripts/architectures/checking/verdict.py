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
Said = Sequence[ModelAnswer]


@dataclass(frozen=True, slots=True)
class Found:
    """The results of LocalSpec on a model; only the fault where it could not load it."""

    fault: str
    info: Mapping[str, object] | str
    answers: Mapping[str, Said]
    planned: int = 0  # bytes
    grown: int = 0
    drafted: int = 0  # tokens

    @classmethod
    def of(cls, data: Mapping[str, object]) -> Found:
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
    untold: tuple[str, ...] = ()  # figures that `info` leaves away

    @property
    def fails(self) -> bool:
        return self.word in FAILURES


Margins = tuple[float, float]  # as the engine says it, and the least in batches of other widths
Weigh = Callable[[Sequence[Parting]], Sequence[Margins]]


def judge(theirs: Said, found: Found, wanted: Mapping[str, object], weigh: Weigh) -> ModelVerdict:
    """Compare LocalSpec's answers with the engine's, and what `info` tells with `wanted`."""
    if found.fault:
        return ModelVerdict("refused", (found.fault,))
    parted = list(partings(theirs, found))
    weighed = dict(weights(parted, weigh))
    judged = [(each, weighed.get(each)) for each in parted]
    words = [word_of(margins) for _, margins in judged]
    differs = [told(each, margins) for each, margins in judged if word_of(margins) == "differs"]
    wrong, much = list(told_wrongly(found, wanted)), list(unplanned(found))
    found_words = {*words, *(["untrue"] if wrong else []), *(["memory"] if much else [])}
    untold = set(wanted) - set(found.info if isinstance(found.info, Mapping) else ())
    return ModelVerdict(
        next((word for word in WORST_FIRST if word in found_words), "same"),
        (*differs, *wrong, *much),
        near=len(parted) - len(differs),
        planned=found.planned,
        grown=found.grown,
        drafted=found.drafted,
        untold=tuple(sorted(untold)),
    )


def partings(theirs: Said, found: Found) -> Iterator[Parting]:
    """Find the place where each differing answer parts."""
    for way, said in found.answers.items():
        for at, ours in enumerate(said):
            engine = next(each for each in theirs if each.text == ours.text)
            if parted := parting(f"{way} {at}", engine, ours):
                yield parted


def weights(parted: Sequence[Parting], weigh: Weigh) -> Iterator[tuple[Parting, Margins]]:
    """List the margins of answers that part at a token."""
    at_tokens = [each for each in parted if each.token is not None]
    if at_tokens:
        yield from zip(at_tokens, weigh(at_tokens), strict=True)


def word_of(margins: Margins | None) -> Word:
    """Name the word for parting by so much."""
    first, least = margins or (FAR, FAR)
    if first <= NEAR:
        return "near-tie"
    return "rounding" if least <= NEAR else "differs"


def told(parted: Parting, margins: Margins | None) -> str:
    if margins is None:
        return f"{parted.way}: another prompt, or an early end, after {parted.at} tokens"
    first, least = margins
    return f"{parted.way}: token {parted.at} is {first:.2f} below the best, at least {least:.2f}"


def told_wrongly(found: Found, wanted: Mapping[str, object]) -> Iterator[str]:
    if isinstance(found.info, Mapping):
        yield from untrue(found.info, wanted)
    else:
        yield f"info fails: {found.info}"


def unplanned(found: Found) -> Iterator[str]:
    """Tell where a process grew by more than was planned, or planned by far too much."""
    planned, grown = found.planned / MIB, found.grown / MIB
    if found.grown > found.planned * 1.1 + APART or found.planned > 2 * found.grown + APART:
        yield f"{planned:.1f} MiB planned, grown by {grown:.1f} MiB"


def read(answers: object) -> Said:
    """Read kept answers."""
    return [ModelAnswer.of(each) for each in answers] if isinstance(answers, list) else []


def number(data: Mapping[str, object], name: str) -> int:
    found = data.get(name, 0)
    return found if isinstance(found, int) else 0

"""The goals of LocalSpec beside llama-server, and whether they were met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.comparison.noise import half_width
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.sides import DRAFTED, GUESSING, LLAMA_SERVER, NGRAMS, PLAIN
from benchmarks.comparison.summary import ALL, SideFigures, ratio
from benchmarks.comparison.task_sets import REPEATING

LONGEST_P95_GAP = 0.5  # seconds
REPEATS = (*REPEATING, "translation", "edit", "document", "agent")


@dataclass(frozen=True, slots=True)
class Goal:
    claim: str
    value: float
    bound: float
    at_most: bool = False
    noise: float | None = None  # half the 95% interval, as a share of the value

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    @property
    def in_noise(self) -> bool:
        return bool(self.noise) and abs(self.value - self.bound) <= self.value * (self.noise or 0)

    def __str__(self) -> str:
        sign = "at most" if self.at_most else "at least"
        verdict = ("met" if self.met else "MISSED") + (", within noise" if self.in_noise else "")
        spread = "" if self.noise is None else f" ±{self.value * self.noise:.3f}"
        return f"{self.claim}: {self.value:.3f}{spread}, goal {sign} {self.bound:g}: {verdict}"


@dataclass(frozen=True, slots=True)
class Judge:
    """The figures of a setting, by side and category."""

    figures: Sequence[SideFigures]

    def of(self, side: str, category: str = ALL) -> SideFigures | None:
        named = (f for f in self.figures if (f.side, f.category) == (side, category))
        return next(named, None)

    def speeds(self, claim: str, bound: float, side: str, other: str) -> Iterator[Goal]:
        """Compare two sides over everything, if both were measured."""
        yield from self.speeds_in(ALL, claim, bound, (side, other))

    def speeds_in(
        self, category: str, claim: str, bound: float, sides: tuple[str, str]
    ) -> Iterator[Goal]:
        mine, theirs = (self.of(side, category) for side in sides)
        if mine and theirs:
            noise = half_width(mine.paces, theirs.paces)
            yield Goal(claim, ratio(mine.speeds, theirs.speeds), bound, noise=noise)

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(f.category for f in self.figures))

    @property
    def best_of_theirs(self) -> str:
        """Name the mode of llama-server that is fastest over everything."""
        modes = [f for f in self.figures if f.category == ALL and is_theirs(f.side)]
        return max(modes, key=lambda f: f.speed_ratio).side


def is_theirs(side: str) -> bool:
    return side in (LLAMA_SERVER, *NGRAMS) or side.startswith("draft-")


def goals(setting: Setting, figures: Sequence[SideFigures]) -> Iterator[Goal]:
    """Judge a setting; sides that were not measured have no goals."""
    judge = Judge(figures)
    ours = judge.of(GUESSING)
    if ours is None:
        return
    if setting.depth:
        yield Goal("first token beside llama-server", ours.first_ratio, 1.05, at_most=True)
        yield from judge.speeds("decoding beside llama-server", 0.97, GUESSING, LLAMA_SERVER)
    elif setting.streams == 1:
        yield from one_stream(judge)
    else:
        yield from many_streams(judge, ours)


def one_stream(judge: Judge) -> Iterator[Goal]:
    yield from judge.speeds("speed beside llama-server", 0.97, GUESSING, LLAMA_SERVER)
    best = judge.best_of_theirs
    yield from judge.speeds(f"speed beside its best mode, {best}", 1.0, GUESSING, best)
    for category in judge.categories:
        claim = f"{category} beside llama-server"
        if category != ALL:
            yield from judge.speeds_in(category, claim, 0.97, (GUESSING, LLAMA_SERVER))
    for category in judge.categories:
        bound = 1.1 if category in REPEATS else 0.98
        claim = f"drafts beside none, {category}"
        yield from judge.speeds_in(category, claim, bound, (GUESSING, PLAIN))
        claim = f"with the draft model beside without it, {category}"
        yield from judge.speeds_in(category, claim, 0.99, (DRAFTED, GUESSING))


def many_streams(judge: Judge, ours: SideFigures) -> Iterator[Goal]:
    yield from judge.speeds("throughput beside llama-server", 1.0, GUESSING, LLAMA_SERVER)
    yield from judge.speeds("throughput of drafts beside none", 0.99, GUESSING, PLAIN)
    yield Goal("p95 of gaps, seconds", ours.gap_p95, LONGEST_P95_GAP, at_most=True)
    late = ours.first_p95_ratio
    yield Goal("p95 of first tokens beside llama-server", late, 1.0, at_most=True)

"""The goals of LocalSpec beside llama-server, and whether they were met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.comparison.plan import LONG_CONTEXT, Setting
from benchmarks.comparison.questions import REPEATING
from benchmarks.comparison.sides import GUESSING, LLAMA_SERVER, NGRAMS, PLAIN
from benchmarks.comparison.summary import ALL, SideFigures, ratio

LONGEST_P95_GAP = 0.5  # seconds
REPEATS = (*REPEATING, "translation")


@dataclass(frozen=True, slots=True)
class Goal:
    claim: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        sign = "at most" if self.at_most else "at least"
        verdict = "met" if self.met else "MISSED"
        return f"{self.claim}: {self.value:.3f}, goal {sign} {self.bound:g}: {verdict}"


def goals(setting: Setting, figures: Sequence[SideFigures]) -> Iterator[Goal]:
    """Judge a setting; sides that were not measured have no goals."""
    by = {(side_figures.side, side_figures.category): side_figures for side_figures in figures}
    if (GUESSING, ALL) not in by:
        return
    ours = by[GUESSING, ALL]
    if setting.context == LONG_CONTEXT:
        yield Goal("first token beside llama-server", ours.first_ratio, 1.05, at_most=True)
        yield Goal("decoding beside llama-server", ours.speed_ratio, 0.97)
    elif setting.streams == 1:
        theirs = [by[name, ALL] for name in (LLAMA_SERVER, *NGRAMS) if (name, ALL) in by]
        least = min(ratio(ours.speeds, side_figures.speeds) for side_figures in theirs)
        yield Goal("speed beside llama-server", ours.speed_ratio, 0.97)
        yield Goal("speed beside the best mode of llama-server", least, 1.0)
        yield from categories(figures)
    else:
        yield Goal("throughput beside llama-server", ours.speed_ratio, 1.0)
        yield Goal("p95 of gaps, seconds", ours.gap_p95, LONGEST_P95_GAP, at_most=True)
        yield Goal(
            "p95 of first tokens beside llama-server", ours.first_p95_ratio, 1.0, at_most=True
        )
    yield from speculation(figures)


def categories(figures: Sequence[SideFigures]) -> Iterator[Goal]:
    for side_figures in figures:
        if side_figures.side == GUESSING and side_figures.category != ALL:
            yield Goal(
                f"{side_figures.category} beside llama-server", side_figures.speed_ratio, 0.97
            )


def speculation(figures: Sequence[SideFigures]) -> Iterator[Goal]:
    """Judge speculation beside our own plain decoding."""
    plain = {
        side_figures.category: side_figures.speeds
        for side_figures in figures
        if side_figures.side == PLAIN
    }
    for side_figures in figures:
        if side_figures.side == GUESSING and side_figures.category in plain:
            bound = 1.1 if side_figures.category in REPEATS else 0.98
            gain = ratio(side_figures.speeds, plain[side_figures.category])
            yield Goal(f"speculation beside plain, {side_figures.category}", gain, bound)

"""Try every text on every kind of hardware, and print how the controller did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isinf

import numpy as np

from simulation import newcomers, streams
from simulation.copies import copies
from simulation.hardware import CURVES, DRAFTING, WIDE_CURVES
from simulation.texts import SimulatedText, texts
from simulation.world import Run, SimulatedMachine, controlled, fixed, oracle

START = 200  # tokens after which it should know; half of a shorter text
AGAIN = 60  # rounds after which it should know a text that has changed
NEAR, PLAIN, COLD = 0.97, 0.98, 0.95  # of the best depth then; of plain in all, and at first


@dataclass(frozen=True, slots=True)
class SimulationTrial:
    """Texts of one kind on one machine. Speeds are multiples of plain decoding."""

    text: str
    hardware: str
    drafting: float
    speed: float
    best: float  # of the fixed depths
    depth: str  # of that
    near: float  # of the best fixed depth, after the start
    cold: float  # of plain decoding, at the start
    back: float  # of the fixed depth that is best then, after a text has changed
    oracle: float
    telling: float  # what it takes of plain decoding to tell a change in time, at least

    @property
    def met(self) -> bool:
        return min(self.near, self.back) >= NEAR and self.speed >= PLAIN and self.cold >= COLD

    @property
    def line(self) -> str:
        back = "" if isinf(self.back) else f"{self.back:.1%}"
        return (
            f"{self.text:20}{self.hardware:12}{self.drafting:5.0%}{self.speed:8.2f}"
            f"{self.best:8.2f} {self.depth:16}{self.near:7.1%}{back:>9}{self.cold:9.1%}"
            f"{self.oracle:8.2f}{'' if self.met else '  missed'}"
        )


HEADING = (
    f"{'text':20}{'hardware':12}{'draft':>5}{'speed':>8}{'best':>8} "
    f"{'fixed depth':16}{'near':>7}{'back':>9}{'cold':>9}{'oracle':>8}"
)
Span = tuple[int, int]  # of a text, between two places


def trial(texts: Sequence[SimulatedText], hardware: str, drafting: float) -> SimulationTrial:
    machine = SimulatedMachine({**CURVES, **WIDE_CURVES}[hardware], drafting)
    own = [controlled(text, machine, seed) for seed, text in enumerate(texts)]
    by = list(texts[0].drafts)
    fixed_runs = {
        f"{name} {depth}" if depth else "plain": [fixed(t, machine, name, depth) for t in texts]
        for name in by
        for depth in texts[0].depths
    }
    plain = fixed_runs["plain"]
    whole = [(0, text.length) for text in texts]
    start = [(0, min(START, text.length // 2)) for text in texts]
    after = [(end, text.length) for (_, end), text in zip(start, texts, strict=True)]
    best = min(fixed_runs, key=lambda name: seconds(fixed_runs[name], whole))
    return SimulationTrial(
        texts[0].name,
        hardware,
        drafting,
        speed=seconds(plain, whole) / seconds(own, whole),
        best=seconds(plain, whole) / seconds(fixed_runs[best], whole),
        depth=best,
        near=least(fixed_runs.values(), after) / seconds(own, after),
        cold=seconds(plain, start) / seconds(own, start),
        back=min(back(texts, own, list(fixed_runs.values())), default=inf),
        oracle=seconds(plain, whole) / sum(oracle(text, machine) for text in texts),
        telling=telling(machine, by[-1]),
    )


def telling(machine: SimulatedMachine, by: str) -> float:
    """Compute what it takes to see every so many rounds whether a drafter would pay.

    Only a draft tells: a token of it, and what the drafter has to read of the text before.
    """
    return (machine.draft(by, 1) + machine.read(by, AGAIN - 1)) / (AGAIN * machine.forward(1))


def seconds(runs: Sequence[Run], spans: Sequence[Span]) -> float:
    return sum(run.seconds(*span) for run, span in zip(runs, spans, strict=True))


def least(many: Iterable[Sequence[Run]], spans: Sequence[Span]) -> float:
    return min(seconds(runs, spans) for runs in many)


def back(
    texts: Sequence[SimulatedText], own: Sequence[Run], fixed_runs: Sequence[Sequence[Run]]
) -> Iterator[float]:
    """Compare it with the best fixed depth from so many rounds after each switch of text."""
    switches = [*texts[0].switches, texts[0].length]
    for switch, end in pairwise(switches):
        spans = [(run.later(switch, AGAIN), end) for run in own]
        if all(begin < end for begin, end in spans):
            yield least(fixed_runs, spans) / seconds(own, spans)


def trials() -> Iterator[SimulationTrial]:
    chosen = [
        (alike, hardware, drafting)
        for alike in texts()
        for hardware in CURVES
        for drafting in next(costs for by, costs in DRAFTING.items() if by in alike[0].drafts)
    ]
    chosen += [(alike, hardware, 0.0) for alike in copies() for hardware in WIDE_CURVES]
    with ProcessPoolExecutor() as pool:
        yield from pool.map(trial, *zip(*chosen, strict=True))


def summary(results: Sequence[SimulationTrial]) -> Iterator[str]:
    yield f"{len(results)} trials, {sum(trial.met for trial in results)} met all goals"
    goals: Sequence[tuple[str, float, Callable[[SimulationTrial], float]]] = (
        ("of the best fixed depth, after the start", NEAR, lambda t: t.near),
        ("of the then best, after a change", NEAR, lambda t: t.back),
        ("where 2% suffice to tell it", NEAR, lambda t: t.back if t.telling <= 1 - PLAIN else inf),
        ("of plain decoding, in all", PLAIN, lambda t: t.speed),
        ("of plain decoding, at the start", COLD, lambda t: t.cold),
    )
    for name, goal, of in goals:
        values = np.array([of(trial) for trial in results if of(trial) < inf])
        met = int((values >= goal).sum())
        low, middle = values.min(), np.median(values)
        few = f"{met} of {len(values)} at {goal:.0%} or more"
        yield f"{name:42} median {middle:6.1%}, least {low:6.1%}, {few}"


def main() -> int:
    if sys.argv[1:]:
        [name] = sys.argv[1:]
        {"newcomers": newcomers.main, "streams": streams.main}[name]()
        return 0
    print(HEADING)
    results = []
    for trial in trials():
        results.append(trial)
        print(trial.line, flush=True)
    print()
    print(*summary(results), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Try every text on every kind of hardware, and print what the controller made of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulation import record
from simulation.hardware import CURVES, DRAFTING
from simulation.texts import FURTHEST, Text, texts
from simulation.world import Machine, controlled, fixed, oracle

START = 200  # tokens after which it should know; half of a shorter text
NEAR, PLAIN, COLD = 0.97, 0.98, 0.95  # of the best depth then; of plain in all, and at first


@dataclass(frozen=True, slots=True)
class Trial:
    """One text on one machine. Speeds are in terms of plain decoding."""

    text: str
    hardware: str
    drafting: float
    speed: float
    best: float  # of the fixed depths
    depth: str  # of that
    near: float  # of the best fixed depth, after the start
    cold: float  # of plain decoding, at the start
    oracle: float

    @property
    def met(self) -> bool:
        return self.near >= NEAR and self.speed >= PLAIN and self.cold >= COLD

    @property
    def line(self) -> str:
        return (
            f"{self.text:20}{self.hardware:12}{self.drafting:5.0%}{self.speed:8.2f}"
            f"{self.best:8.2f} {self.depth:16}{self.near:7.1%}{self.cold:9.1%}{self.oracle:8.2f}"
            f"{'' if self.met else '  missed'}"
        )


def trial(text: Text, hardware: str, drafting: float) -> Trial:
    machine = Machine(CURVES[hardware], drafting)
    start = min(START, text.length // 2)
    plain = fixed(text, machine, next(iter(text.guesses)), 0)
    runs = {
        f"{by} {depth}": fixed(text, machine, by, depth)
        for by in text.guesses
        for depth in range(1, FURTHEST + 1)
    } | {"plain": plain}
    best = min(runs, key=lambda name: runs[name].seconds())
    late = min(run.seconds(start) for run in runs.values())
    run = controlled(text, machine)
    return Trial(
        text.name,
        hardware,
        drafting,
        speed=plain.seconds() / run.seconds(),
        best=plain.seconds() / runs[best].seconds(),
        depth=best,
        near=late / run.seconds(start),
        cold=plain.seconds(0, start) / run.seconds(0, start),
        oracle=plain.seconds() / oracle(text, machine),
    )


def trials() -> Iterator[Trial]:
    for text in texts():
        for hardware in CURVES:
            for drafting in DRAFTING if "draft-model" in text.guesses else DRAFTING[:1]:
                yield trial(text, hardware, drafting)


def summary(found: Sequence[Trial]) -> Iterator[str]:
    yield f"{len(found)} trials, {sum(each.met for each in found)} met all three"
    goals: Sequence[tuple[str, float, Callable[[Trial], float]]] = (
        ("of the best fixed depth, after the start", NEAR, lambda t: t.near),
        ("of plain decoding, in all", PLAIN, lambda t: t.speed),
        ("of plain decoding, at the start", COLD, lambda t: t.cold),
    )
    for name, goal, of in goals:
        values = np.array([of(each) for each in found])
        met = int((values >= goal).sum())
        low, middle = values.min(), np.median(values)
        yield f"{name:42} median {middle:6.1%}, least {low:6.1%}, {met} at {goal:.0%} or more"


def main() -> int:
    if sys.argv[1:] == ["record"]:
        record.main()
        return 0
    print(f"{'text':20}{'hardware':12}{'draft':>5}{'speed':>8}{'best':>8} ", end="")
    print(f"{'fixed depth':16}{'near':>7}{'cold':>9}{'oracle':>8}")
    found = []
    for each in trials():
        found.append(each)
        print(each.line, flush=True)
    print()
    print(*summary(found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

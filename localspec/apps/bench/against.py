"""The comparison with an earlier run of the same weights: what fell by more than its noise.

A machine may be three times as fast on one day as on another. So drafts are compared as multiples
of plain decoding, prompt by prompt, and plain decoding in proportion to the speed at which memory
was copied before and after each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import pvariance
from textwrap import fill
from typing import TypeVar

from localspec.apps.bench.earlier_run import BenchRun
from localspec.apps.bench.modes import AGAIN, PLAIN
from localspec.apps.bench.report import WIDTH
from localspec.apps.bench.summary import Trial, decoding, loops, speeds
from localspec.apps.bench.theory import chance
from localspec.apps.bench.verdict import AUTO, LOOKUP, Drafter, Speeds, mean, standard_errors, title
from localspec.base.errors import UsageError
from localspec.base.system.fingerprint import changed_versions
from localspec.base.system.machine_load import MachineChange
from localspec.console.columns import columns

FEWEST = 3  # prompts in both runs, with fewer of which nothing is said
MARGIN = 1.5  # times the noise that holds 19 times of 20: none of several figures may fail by it
LEAST_ERROR = 0.01  # of a figure between two runs, beside what the prompts show
UNEXPLAINED_OF_DRAFTS = 0.25  # of a change of memory's speed: may move drafts against plain
UNMOVED = MachineChange(0.0, 0.0)

T = TypeVar("T")
Pair = tuple[Trial, Trial]  # one prompt's replies, before and now
Rates = tuple[Speeds, Speeds]  # and their speeds


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and now, the change and what of it may be noise, as they are shown."""

    figure: str
    before: str
    now: str
    change: str
    noise: str
    fell: bool
    rose: bool = False

    def __str__(self) -> str:
        return f"{self.figure} {self.now} ({self.before} before; {self.change}, noise {self.noise})"


@dataclass(frozen=True, slots=True)
class Comparison:
    heading: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def falls(self) -> list[Change]:
        return [change for change in self.changes if change.fell]

    def text(self) -> str:
        titles = ("", "before", "now", "change", "noise", "")
        rows = [
            (one.figure, one.before, one.now, one.change, one.noise, "fell" * one.fell)
            for one in self.changes
        ]
        table = columns([titles, *rows], numbers=True)
        return "\n\n".join([self.heading, table, *(fill(note, WIDTH) for note in self.notes)])


def compare(path: Path, earlier: BenchRun, now: BenchRun, drafter: Drafter | None) -> Comparison:
    """Compare two runs by the prompts that both answered."""
    keys = [key for key in now.trials if key in earlier.trials]
    pairs = [(earlier.trials[key], now.trials[key]) for key in keys]
    if len(pairs) < FEWEST:
        raise UsageError(
            f"{len(pairs)} prompts are in both this run and {path}, and {FEWEST} are needed: ask "
            "the same ones (--prompts, --category, --limit, --repeat), or give more --seconds"
        )
    reason = why_no_speeds(earlier, now)
    machine = MachineChange.between(earlier.load, now.load) if now.on_host else UNMOVED
    rates = [] if reason else _rates(pairs)
    changes = [_of_speed("plain tokens/s", rates, PLAIN, machine)] if rates else []
    for mode in now.modes:
        if mode in earlier.modes and mode not in (PLAIN, AGAIN):
            changes += _of_mode(mode, title(mode, drafter), pairs, rates, machine)
    notes = [_changes(earlier, now)]
    notes += [f"Speeds are not compared: {reason}."] if reason else _memory(earlier, now)
    return Comparison(f"Against {path}, {len(pairs)} prompts:", tuple(changes), tuple(notes))


def why_no_speeds(earlier: BenchRun, now: BenchRun) -> str:
    """Return why speeds of two runs cannot be compared; "" if they can."""
    before, machine = earlier.heading["machine"], now.heading["machine"]
    if before != machine:
        return f"the file is of another machine ({before}), and this is {machine}"
    if earlier.on_host != now.on_host:
        return "one run was on the processor alone, and the other one was not"
    for run, name in ((earlier, "the earlier run"), (now, "this run")):
        if run.load.crowded:
            others = f"{run.load.others:.0%} of the processors"
            return f"other programs took {others} in {name}, which should be repeated without them"
    return ""


def _rates(pairs: Sequence[Pair]) -> list[Rates]:
    """List the speeds of prompts that are not answered in a loop, if these are enough."""
    sound = [pair for pair in pairs if not any(map(loops, pair))]
    rates = [
        (before, now)
        for one, other in (sound if len(sound) >= FEWEST else pairs)
        for before, now in zip(speeds([one]), speeds([other]), strict=False)
    ]
    return rates if len(rates) >= FEWEST else []


def _of_mode(
    mode: str, name: str, pairs: Sequence[Pair], rates: Sequence[Rates], machine: MachineChange
) -> Iterator[Change]:
    """Compare a mode's speed with plain decoding's, its accepted tokens, and its texts."""
    unlike = MachineChange(0.0, UNEXPLAINED_OF_DRAFTS * machine.faster)
    speed = _of_speed(f"{name}: times plain", rates, mode, unlike) if rates else None
    if speed:
        yield speed
    # With an open depth, drafts are as long and as sure as pays: less may be accepted for more.
    counts = mode not in (AUTO, LOOKUP) or (speed is not None and not speed.rose)
    yield from _of_accepted(f"{name}: accepted", pairs, mode, counts=counts)
    yield _of_texts(f"{name}: text of plain", pairs, mode)


def _of_speed(figure: str, rates: Sequence[Rates], mode: str, machine: MachineChange) -> Change:
    """Compare plain decoding, or a mode as a multiple of it."""

    def rate(prompt: Speeds) -> float:
        return prompt.plain if mode == PLAIN else prompt.modes[mode] / prompt.plain

    def change(rates: Sequence[Rates]) -> float:
        before, now = (mean(run, rate) for run in zip(*rates, strict=True))
        return math.log(now / before) - machine.faster

    moved, noise = jackknife(rates, change)
    noise = math.hypot(noise, machine.error)
    before, now = (f"{mean(run, rate):.2f}" for run in zip(*rates, strict=True))
    noise_shown = f"± {math.expm1(noise):.0%}" if noise < math.log(2) else "unsteady"
    shown = f"{math.expm1(moved):+.0%}", noise_shown
    return Change(figure, before, now, *shown, fell=moved < -noise, rose=moved > noise)


def _of_accepted(
    figure: str, pairs: Sequence[Pair], mode: str, *, counts: bool
) -> Iterator[Change]:
    """Compare how often a drafted token is accepted if all before it were."""

    def accepted(trials: Sequence[Trial]) -> float | None:
        return chance(decoding([trial[mode] for trial in trials]))

    def change(pairs: Sequence[Pair]) -> float:
        before, now = (accepted(run) or 0.0 for run in zip(*pairs, strict=True))
        return now - before

    judged = [pair for pair in pairs if None not in [accepted([trial]) for trial in pair]]
    if len(judged) >= FEWEST:
        moved, noise = jackknife(judged, change)
        before, now = (f"{accepted(run):.0%}" for run in zip(*judged, strict=True))
        shown = f"{moved * 100:+.0f}", f"± {noise * 100:.0f}"
        yield Change(figure, before, now, *shown, fell=counts and moved < -noise)


def _of_texts(figure: str, pairs: Sequence[Pair], mode: str) -> Change:
    before, now = (
        sum(trial[mode].tokens == trial[PLAIN].tokens for trial in run)
        for run in zip(*pairs, strict=True)
    )
    count = len(pairs)
    noise = 2 * math.sqrt(2 * count - before - now)  # near-ties turn now one way, now the other
    shown = f"{before}/{count}", f"{now}/{count}", f"{now - before:+}", f"± {noise:.0f}"
    return Change(figure, *shown, fell=now - before < -noise)


def jackknife(
    pairs: Sequence[tuple[T, T]], change: Callable[[Sequence[tuple[T, T]]], float]
) -> tuple[float, float]:
    """Return the change from the first to the second of all pairs, and how much may be noise."""
    count = len(pairs)
    others = [change([*pairs[:at], *pairs[at + 1 :]]) for at in range(count)]
    error = math.sqrt((count - 1) * pvariance(others))
    factor = MARGIN * standard_errors(count - 1)
    return change(pairs), factor * math.hypot(error, LEAST_ERROR)


def _changes(earlier: BenchRun, now: BenchRun) -> str:
    before, after = (
        [*run.heading["versions"].split(", "), f"revision {run.heading.get('revision', 'unknown')}"]
        for run in (earlier, now)
    )
    changes = changed_versions(before, after)
    return f"Changed since: {changes}." if changes else "No version has changed since."


def _memory(earlier: BenchRun, now: BenchRun) -> Iterator[str]:
    before, after = (run.load.memory_speed / 1e9 for run in (earlier, now))
    if now.on_host:
        yield (
            f"Memory was copied at {before:.1f} GB/s before and at {after:.1f} now; where it fell, "
            "plain decoding is compared in proportion."
        )

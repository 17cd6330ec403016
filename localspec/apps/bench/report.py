"""A whole run: its setup, every reply, the verdict, and the figures behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from textwrap import fill

from localspec.apps.bench.modes import AGAIN
from localspec.apps.bench.reply import Round
from localspec.apps.bench.setup import Setup
from localspec.apps.bench.summary import (
    Section,
    Trial,
    forwards,
    loops,
    sections,
    speeds,
    total,
    trials,
)
from localspec.apps.bench.table import TABLES, printed
from localspec.apps.bench.timed_run import Outcome
from localspec.apps.bench.verdict import AUTO, LOOKUP, Drafter, Verdict, judge, title
from localspec.base.system.bandwidth import read_bytes_a_second
from localspec.console.columns import columns

WIDTH = 80  # of a terminal
FASTEST = 4  # of the modes that a user names: more do not fit in 80 columns
FORMAT = 1  # of the JSON: more where an earlier LocalSpec would misread it


@dataclass(frozen=True, slots=True)
class Report:
    setup: Setup
    outcome: Outcome
    trials: tuple[Trial, ...]
    verdict: Verdict | None  # None: no prompt was answered by all modes
    sections: tuple[Section, ...]
    forwards: Mapping[int, float]  # in plain rounds, by draft tokens verified
    read_speed: float = 0.0  # bytes that memory gives in a second; 0: weights lie elsewhere, too

    @property
    def read_share(self) -> float | None:
        """Return how much of memory's speed plain decoding uses to read weights."""
        if not self.read_speed or self.verdict is None:
            return None
        return self.verdict.rows[-1].plain * self.setup.read_bytes / self.read_speed


def report(
    setup: Setup, outcome: Outcome, read_speed: Callable[[], float] = read_bytes_a_second
) -> Report:
    complete = tuple(trials(outcome.replies, setup.modes))
    measured = speeds(complete)
    verdict = judge(measured, setup.drafter, outcome.load) if measured else None
    parts = tuple(sections(complete, setup.modes))
    speed = read_speed() if verdict and setup.on_host and setup.read_bytes else 0.0
    return Report(setup, outcome, complete, verdict, parts, forwards(complete), speed)


def text(report: Report, *, details: bool) -> str:
    """Format the verdict and its table for a terminal, and the details behind them."""
    if report.verdict is None:
        busy = f"; other programs took {report.outcome.load.others:.0%} of the processors"
        return (
            f"There is nothing to compare: no prompt was answered by all modes in time{busy}. "
            "Repeat it, or give it more --seconds."
        )
    parts = [
        fill(report.verdict.text, WIDTH),
        verdict_table(report.verdict, report.setup.drafter),
        *(fill(note, WIDTH) for note in _notes(report, report.verdict)),
    ]
    if details:
        heading = "\n".join(f"{name:<10} {value}" for name, value in report.setup.heading)
        parts += [heading, *(printed(report.sections, table) for table in TABLES)]
        parts.append(forward_line(report.forwards))
    else:
        parts.append(
            "--details shows more ways to decode, drafts and costs; --json FILE keeps all."
        )
    return "\n\n".join(parts)


def verdict_table(verdict: Verdict, drafter: Drafter | None) -> str:
    """Format plain decoding in tokens a second, and the modes that decide against it."""
    modes = deciding(verdict)
    lines = [
        ["", "plain", *(title(mode, drafter) for mode in modes)],
        ["", "tokens/s", *["times plain"] * len(modes)],
        *(
            [row.kind, f"{row.plain:.1f}", *(str(row.ratios[mode]) for mode in modes)]
            for row in verdict.rows
        ),
    ]
    return columns(lines, numbers=True)


def deciding(verdict: Verdict) -> list[str]:
    """Name the modes that the verdict is about."""
    ratios = verdict.rows[-1].ratios
    if AUTO in ratios:
        return [mode for mode in (LOOKUP, AUTO) if mode in ratios]
    return sorted(ratios, key=lambda mode: -ratios[mode].value)[:FASTEST]


def _notes(report: Report, verdict: Verdict) -> Iterator[str]:
    heading = dict(report.setup.heading)
    longest = max(len(reply.tokens) for reply in report.outcome.replies)
    yield (
        f"{heading['model']}, on {heading['machine']}: {len(report.trials)} prompts, replies of up "
        f"to {longest} tokens, {heading['sampling']}. Plain decoding, twice, differed from itself "
        f"by {verdict.unsteady:.1%}; other programs took {verdict.load.others:.0%} of the "
        f"processors. After ± stands how far off a figure is at most, in 19 of 20 cases."
    )
    if share := report.read_share:
        yield (
            f"Plain decoding reads weights at {share:.0%} of what memory allows "
            f"({report.read_speed / 1e9:.1f} GB/s)."
        )
    if energy := energy_line(report):
        yield energy
    looping = sum(map(loops, report.trials))
    if 0 < looping < len(report.trials):
        were = "was" if looping == 1 else "were"
        yield f"{looping} of the prompts {were} answered in a loop, which does not count."


def energy_line(report: Report) -> str:
    """Say what a token takes in each mode; empty where the machine does not count it."""
    modes = [AGAIN, *deciding(report.verdict)] if report.verdict else []
    taken = {summary.mode: summary.joules for summary in total(report.sections).summaries}
    titles = {AGAIN: "plain", LOOKUP: "by prompt lookup alone", AUTO: "with drafts"}
    shown = [
        f"{titles.get(mode, mode)} {joules:.2f}" for mode in modes if (joules := taken.get(mode))
    ]
    if not shown:
        return ""
    return f"Joules a token, of all that ran on the machine: {', '.join(shown)}."


def forward_line(forwards: Mapping[int, float]) -> str:
    shown = ", ".join(f"{drafted}:_{cost:.2f}" for drafted, cost in forwards.items())
    line = fill(f"Forwards by draft tokens verified, in plain rounds: {shown}", 100)
    return line.replace("_", " ")  # no line ends within a pair


def as_json(report: Report) -> str:
    """Serialise all measurements; rounds are lists in the order of `round_fields`."""
    return json.dumps(
        {
            "format": FORMAT,
            "verdict": asdict(report.verdict) if report.verdict else None,
            **report.setup.as_record(),
            "load": asdict(report.outcome.load),
            "read_speed": report.read_speed,
            "read_share": report.read_share,
            "forwards": report.forwards,
            "sections": [asdict(section) for section in report.sections],
            "round_fields": [field.name for field in fields(Round)],
            "replies": [reply.as_record() for reply in report.outcome.replies],
        },
        ensure_ascii=False,
    )

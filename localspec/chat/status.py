"""AnswerFigures of answers: in a line, or as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table

from localspec.chat.hearing import HeardAnswer
from localspec.chat.speakers.speaker import AnswerFigures, AnswerRound, Ended
from localspec.engine.figures import TARGET, PositionCounts

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 60  # characters of the sparkline
WIDEST = 1000  # characters
POSITIONS = 8  # positions of a draft that the table shows


def status(ended: Ended, context: int = 0) -> str:
    """The line under an answer."""
    found = ended.figures
    parts = [f"{found.tokens:,} tokens"]
    if found.per_second:
        parts.append(f"{found.per_second:.1f} tokens/s")
    if found.speedup and found.drafted:
        parts.append(f"about {found.speedup:.2f}x plain")
    if found.drafted and found.rounds:
        parts.append(f"{found.accepted / found.rounds:.2f} accepted a round{guessers(found)}")
    if found.first_seconds is not None:
        parts.append(f"first after {found.first_seconds:.2f} s")
    if context:
        parts.append(f"context {found.prompt + found.tokens:,} of {context:,}")
    if ended.finish != "stop":
        parts.append({"length": "cut at its length", "cancelled": "stopped"}[ended.finish])
    return ", ".join(parts)


def guessers(figures: AnswerFigures) -> str:
    named = [f"{by} {count}" for by, count in figures.by_source.items() if by != TARGET]
    return f" ({' and '.join(named)})" if named else ""


def statistics(heard: Sequence[HeardAnswer]) -> Iterator[RenderableType]:
    """Tables of a conversation: each answer, each proposer by position, and the depth over time."""
    yield answers(heard)
    if positions := guessed(heard):
        yield ""
        yield positions
    if line := sparkline(heard[-1].rounds):
        yield ""
        yield f"drafted tokens a round in the last answer, up to {most(heard[-1].rounds)}:"
        yield line


@dataclass(frozen=True, slots=True)
class Columns:
    """A table if there is room for its columns, else a line of names and values a row."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    justify: Literal["left", "right"] = "right"  # of the first one

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for at, name in enumerate(self.names):
            table.add_column(name, justify="right" if at else self.justify)
        for row in self.rows:
            table.add_row(*row)
        if (
            console.measure(table, options=options.update(max_width=WIDEST)).maximum
            <= options.max_width
        ):
            yield table
            return
        for row in self.rows:
            yield ", ".join(f"{name} {cell}" for name, cell in zip(self.names, row, strict=False))


def answers(heard: Sequence[HeardAnswer]) -> Columns:
    names = ("answer", "tokens", "tokens/s", "rounds", "drafted", "accepted", "read", "known")
    return Columns(names, [_answer(*each) for each in enumerate(heard, start=1)])


def _answer(number: int, heard: HeardAnswer) -> Sequence[str]:
    found = heard.figures
    return (
        str(number),
        f"{found.tokens:,}",
        f"{found.per_second:.1f}" if found.per_second else "-",
        f"{found.rounds:,}",
        f"{found.drafted:,}",
        f"{found.accepted:,}",
        f"{found.prompt - found.cached:,}",
        f"{found.cached:,}",
    )


def guessed(heard: Sequence[HeardAnswer]) -> Columns | None:
    """Tabulate the share of accepted drafts by proposer and position."""
    drafted: Counter[tuple[str, int]] = Counter()
    accepted: Counter[tuple[str, int]] = Counter()
    for each in heard:
        for by, guesses in each.figures.guesses.items():
            for at, found in enumerate(guesses[:POSITIONS]):
                drafted[by, at] += found.drafted
                accepted[by, at] += found.accepted
    if not drafted:
        return None
    reach = range(max(at for _, at in drafted) + 1)
    rows = [
        (by, *(rate(PositionCounts(drafted[by, at], accepted[by, at])) for at in reach))
        for by in sorted({by for by, _ in drafted})
    ]
    names = ("accepted by position", *(str(at + 1) for at in reach))
    return Columns(names, rows, justify="left")


def rate(guesses: PositionCounts) -> str:
    return f"{guesses.accepted / guesses.drafted:.0%}" if guesses.drafted else "-"


def most(rounds: Sequence[AnswerRound]) -> int:
    return max((each.drafted for each in rounds), default=0)


def sparkline(rounds: Sequence[AnswerRound]) -> str:
    """Draw numbers as bars of one line; many are averaged in groups."""
    top, size = most(rounds), -(-len(rounds) // WIDTH)
    if not top:
        return ""
    means = (mean(rounds[at : at + size]) for at in range(0, len(rounds), size))
    return "".join(BARS[-int(-each / top * (len(BARS) - 1) // 1)] for each in means)


def mean(rounds: Sequence[AnswerRound]) -> float:
    return sum(each.drafted for each in rounds) / len(rounds)

"""The figures of answers: in the line under one, in words, and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table

from localspec.apps.chat.hearing import HeardAnswer
from localspec.console.speakers.speaker import AnswerFigures, AnswerRound, Ended
from localspec.core.proposers.descriptions import PLACES
from localspec.core.requests.figures import TARGET, PositionCounts

ENDS = {"length": "length limit reached", "cancelled": "stopped"}
BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 60  # characters of the sparkline
WIDEST = 1000  # characters
POSITIONS = 8  # positions of a draft that the table shows


def status(ended: Ended, more: Sequence[str] = ()) -> str:
    """Format the line under an answer: its length, its speed, and settings that are not default."""
    figures = ended.figures
    parts = [quantity(figures.tokens, "token")]
    if figures.per_second:
        gain = figures.speedup if figures.drafted else None
        plain = f" ({gain:.1f}x plain)" if gain else ""
        parts.append(f"{figures.per_second:.1f} tokens/s{plain}")
    if figures.thoughts_cut:
        parts.append("thought cut")
    if ended.finish in ENDS:
        parts.append(ENDS[ended.finish])
    return " · ".join((*parts, *more))


def quantity(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def explain(figures: AnswerFigures, context: int) -> Iterator[tuple[str, str]]:
    """Put the figures of an answer in words, each with its heading; unknown ones are left out."""
    if figures.first_seconds is not None:
        yield "first token", f"after {figures.first_seconds:.2f} s"
    if figures.per_second:
        yield "then", f"{figures.per_second:.1f} tokens a second"
    if figures.drafted and figures.speedup:
        yield "with drafts", f"{figures.speedup:.2f} times as fast as without, by estimate"
    yield from drafting(figures)
    if figures.thought:
        cut = ", and cut: its budget was spent" if figures.thoughts_cut else ""
        yield "thought", f"{quantity(figures.thought, 'token')} of the answer{cut}"
    if figures.prompt:
        cached = f"; {figures.cached:,} were in the cache already" if figures.cached else ""
        yield "prompt", f"{quantity(figures.prompt, 'token')}{cached}"
    if figures.prompt and context:
        used = figures.prompt + figures.tokens
        left = max(context - used, 0)
        yield "context", f"{used:,} of {context:,} tokens used, {left:,} left"


def drafting(figures: AnswerFigures) -> Iterator[tuple[str, str]]:
    """Describe the drafted and accepted tokens, with their proposers."""
    if not figures.drafted:
        yield "drafted", "nothing: no token was guessed ahead"
        return
    share = figures.accepted / figures.drafted
    rounds = ""
    if figures.rounds:
        mean = figures.tokens / figures.rounds
        rounds = f" in {quantity(figures.rounds, 'round')}: {mean:.1f} tokens a round"
    yield "drafted", f"{quantity(figures.drafted, 'token')} guessed ahead{rounds}"
    yield "accepted", f"{figures.accepted:,} of them, {share:.0%}: the model chose the same"
    for source, count in figures.by_source.items():
        if source != TARGET:
            about = PLACES.get(source, "")
            yield f"  {source}", f"{count:,}" + (f", from {about}" if about else "")


def statistics(heard: Sequence[HeardAnswer]) -> Iterator[RenderableType]:
    """Tables of a conversation: each answer, each proposer by position, and the depth over time."""
    yield answers(heard)
    if positions := acceptance_table(heard):
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
    return Columns(names, [_answer(*answer) for answer in enumerate(heard, start=1)])


def _answer(number: int, heard: HeardAnswer) -> Sequence[str]:
    figures = heard.figures
    return (
        str(number),
        f"{figures.tokens:,}",
        f"{figures.per_second:.1f}" if figures.per_second else "-",
        f"{figures.rounds:,}",
        f"{figures.drafted:,}",
        f"{figures.accepted:,}",
        f"{figures.prompt - figures.cached:,}",
        f"{figures.cached:,}",
    )


def acceptance_table(heard: Sequence[HeardAnswer]) -> Columns | None:
    """Tabulate the share of accepted drafts by proposer and position."""
    drafted: Counter[tuple[str, int]] = Counter()
    accepted: Counter[tuple[str, int]] = Counter()
    for answer in heard:
        for by, guesses in answer.figures.guesses.items():
            for at, counts in enumerate(guesses[:POSITIONS]):
                drafted[by, at] += counts.drafted
                accepted[by, at] += counts.accepted
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
    return max((round_.drafted for round_ in rounds), default=0)


def sparkline(rounds: Sequence[AnswerRound]) -> str:
    """Draw numbers as bars of one line; many are averaged in groups."""
    top, size = most(rounds), -(-len(rounds) // WIDTH)
    if not top:
        return ""
    means = (mean(rounds[at : at + size]) for at in range(0, len(rounds), size))
    return "".join(BARS[-int(-depth / top * (len(BARS) - 1) // 1)] for depth in means)


def mean(rounds: Sequence[AnswerRound]) -> float:
    return sum(round_.drafted for round_ in rounds) / len(rounds)

"""What an answer took, and what speculation saved: in a line, or as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table

from localspec.chat.hearing import Heard
from localspec.chat.speaker import Ended, Figures, Round
from localspec.figures import TARGET, Guesses

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 60  # characters of the sparkline
POSITIONS = 8  # guesses of a round that the table tells of


def status(ended: Ended, context: int = 0) -> str:
    """The line under an answer."""
    found = ended.figures
    parts = [f"{found.tokens:,} tokens"]
    if found.per_second:
        parts.append(f"{found.per_second:.1f} tokens/s")
        if found.plain_per_second and found.drafted:
            parts.append(f"about {found.per_second / found.plain_per_second:.2f}x plain")
    if found.drafted:
        parts.append(f"{found.accepted / found.rounds:.2f} accepted a round{guessers(found)}")
    if found.first_seconds is not None:
        parts.append(f"first after {found.first_seconds:.2f} s")
    if context:
        parts.append(f"context {found.prompt + found.tokens:,} of {context:,}")
    if ended.finish != "stop":
        parts.append({"length": "cut at its length", "cancelled": "stopped"}[ended.finish])
    return ", ".join(parts)


def guessers(found: Figures) -> str:
    named = [f"{by} {count}" for by, count in found.by_source.items() if by != TARGET]
    return f" ({' and '.join(named)})" if named else ""


def statistics(heard: Sequence[Heard]) -> Iterator[RenderableType]:
    """Of a conversation: a line an answer, who guessed how well, and how far over time."""
    yield answers(heard)
    if positions := guessed(heard):
        yield ""
        yield positions
    if line := sparkline(heard[-1].rounds):
        yield ""
        yield f"guesses a round in the last answer, up to {most(heard[-1].rounds)}:"
        yield line


def answers(heard: Sequence[Heard]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("answer", "tokens", "tokens/s", "rounds", "guessed", "right", "read", "known"):
        table.add_column(name, justify="right")
    for number, each in enumerate(heard, start=1):
        found = each.figures
        table.add_row(
            str(number),
            f"{found.tokens:,}",
            f"{found.per_second:.1f}" if found.per_second else "-",
            f"{found.rounds:,}",
            f"{found.drafted:,}",
            f"{found.accepted:,}",
            f"{found.prompt - found.cached:,}",
            f"{found.cached:,}",
        )
    return table


def guessed(heard: Sequence[Heard]) -> Table | None:
    """How often the first, second, ... guess of each was right, by those that were made."""
    drafted: Counter[tuple[str, int]] = Counter()
    accepted: Counter[tuple[str, int]] = Counter()
    for each in heard:
        for by, guesses in each.figures.guesses.items():
            for at, found in enumerate(guesses[:POSITIONS]):
                drafted[by, at] += found.drafted
                accepted[by, at] += found.accepted
    if not drafted:
        return None
    reach = max(at for _, at in drafted) + 1
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("right by position")
    for at in range(reach):
        table.add_column(str(at + 1), justify="right")
    for by in sorted({by for by, _ in drafted}):
        rates = (rate(Guesses(drafted[by, at], accepted[by, at])) for at in range(reach))
        table.add_row(by, *rates)
    return table


def rate(guesses: Guesses) -> str:
    return f"{guesses.accepted / guesses.drafted:.0%}" if guesses.drafted else "-"


def most(rounds: Sequence[Round]) -> int:
    return max((each.drafted for each in rounds), default=0)


def sparkline(rounds: Sequence[Round]) -> str:
    """How far was guessed over time; of many rounds the mean of a few at a time."""
    top, size = most(rounds), -(-len(rounds) // WIDTH)
    if not top:
        return ""
    means = (mean(rounds[at : at + size]) for at in range(0, len(rounds), size))
    return "".join(BARS[-int(-each / top * (len(BARS) - 1) // 1)] for each in means)


def mean(rounds: Sequence[Round]) -> float:
    return sum(each.drafted for each in rounds) / len(rounds)

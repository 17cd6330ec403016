"""The figures as tables: what each column is called and shows, and how a terminal prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from localspec.apps.bench.modes import AGAIN, PLAIN
from localspec.apps.bench.summary import Section, Summary
from localspec.apps.bench.theory import Forecast

NONE = "-"
LABEL = 16  # characters of a mode's name
POSITIONS = 8  # shown of the acceptance by position
GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    group: str
    name: str
    show: Callable[[Summary], str]


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    note: str
    columns: tuple[Column, ...]
    plain: bool = False  # whether plain decoding has a row


def number(value: float | None, form: str = ".2f") -> str:
    return NONE if value is None else format(value, form)


def milliseconds(seconds: float | None) -> str:
    return NONE if seconds is None else f"{seconds * 1e3:.1f}"


def against(show: Callable[[Summary], float | None]) -> Callable[[Summary], str]:
    """A ratio to plain; None for plain itself."""
    return lambda summary: "" if summary.mode in (PLAIN, AGAIN) else number(show(summary))


def edge(of: Callable[[Sequence[float]], float], summary: Summary) -> float | None:
    """The least or the most of several ratios."""
    return of(summary.ratios) if len(summary.ratios) > 1 else None


def between(at: int) -> Callable[[Summary], str]:
    return lambda s: milliseconds(s.between_tokens[at] if s.between_tokens else None)


def predicted(show: Callable[[Forecast], float | None]) -> Callable[[Summary], str]:
    return lambda s: number(show(s.forecast) if s.forecast else None)


def by_position(summary: Summary) -> str:
    shares = [f"{share * 100:.0f}" for share in summary.acceptance_by_position]
    return " ".join(shares[:POSITIONS] + ["..."][: len(shares) - POSITIONS]) or NONE


SPEED = Table(
    "Speed",
    "Without the first token, which is shown where the whole prompt was read. Against both plain:\n"
    "prompt by prompt, and all tokens in all their time. Tokens of one round share its time.",
    (
        Column("", "tokens/s", lambda s: number(s.tokens_per_second, ".1f")),
        Column("against plain", "median", against(lambda s: s.ratio)),
        Column("against plain", "least", against(lambda s: edge(min, s))),
        Column("against plain", "most", against(lambda s: edge(max, s))),
        Column("against plain", "all", against(lambda s: s.speedup)),
        Column("first", "token, s", lambda s: number(s.first_token)),
        Column("between tokens, ms", "p50", between(0)),
        Column("between tokens, ms", "p95", between(1)),
        Column("between tokens, ms", "p99", between(2)),
        Column("same", "text", lambda s: f"{s.same_text}/{s.replies}"),
    ),
    plain=True,
)
DRAFTS = Table(
    "Drafts",
    "By position: of the drafts that had a token there, in how many per cent it was accepted.",
    (
        Column("tokens a round", "drafted", lambda s: number(s.drafted)),
        Column("tokens a round", "accepted", lambda s: number(s.accepted)),
        Column("accepted", "of drafted", lambda s: number(s.acceptance_rate, ".0%")),
        Column("accepted", "by position, %", by_position),
        Column("taken", "back", lambda s: str(s.taken_back)),
    ),
)
THEORY = Table(
    "Theory",
    "Chance: of a draft token, if all before it were accepted. Predicted tokens a round, by the\n"
    "textbook: (1 - chance^(drafted + 1)) / (1 - chance). Cost of a round, in plain rounds: what\n"
    "such forwards take in this run, and the rest (drafting, sampling, text). Predicted speed-up:\n"
    "tokens / (forward + rest).",
    (
        Column("", "chance", predicted(lambda f: f.chance)),
        Column("tokens a round", "measured", lambda s: number(s.tokens)),
        Column("tokens a round", "predicted", predicted(lambda f: f.tokens)),
        Column("cost of a round", "forward", predicted(lambda f: f.forward)),
        Column("cost of a round", "rest", predicted(lambda f: f.rest)),
        Column("speed-up", "measured", lambda s: number(s.speedup)),
        Column("speed-up", "predicted", predicted(lambda f: f.speedup)),
    ),
)
TABLES = (SPEED, DRAFTS, THEORY)


def heading(section: Section) -> str:
    """The title of a section."""
    counted = f"{section.title}: {section.trials} {'reply' if section.trials == 1 else 'replies'}"
    return counted + (f"; looping: {', '.join(section.looping)}" if section.looping else "")


def rows(table: Table, section: Section) -> list[tuple[str, list[str]]]:
    """Pair a section's modes with what the table shows of each."""
    return [
        (summary.mode, [column.show(summary) for column in table.columns])
        for summary in section.summaries
        if table.plain or summary.mode not in (PLAIN, AGAIN)
    ]


def printed(sections: Sequence[Section], table: Table) -> str:
    """Format a table for a terminal of 100 columns."""
    return "\n".join(_lines(sections, table))


def _lines(sections: Sequence[Section], table: Table) -> Iterator[str]:
    body = [(heading(section), rows(table, section)) for section in sections]
    widths = _widths(table, [cells for _, entries in body for _, cells in entries])
    yield _groups(table, widths)
    yield _line(table.title, [column.name for column in table.columns], widths)
    for title, entries in body:
        yield title
        for mode, cells in entries:
            yield _line(f"  {mode}", cells, widths)
    yield ""
    yield table.note


def _widths(table: Table, cells: Sequence[Sequence[str]]) -> list[int]:
    """Measure columns; the first of a group takes what its heading needs beyond them."""
    widths = [
        max(len(text) for text in (column.name, *(row[at] for row in cells)))
        for at, column in enumerate(table.columns)
    ]
    for group, span in _spans(table):
        widths[span.start] += max(len(group) - len(GAP.join("x" * w for w in widths[span])), 0)
    return widths


def _spans(table: Table) -> Iterator[tuple[str, slice]]:
    at = 0
    for group, members in groupby(column.group for column in table.columns):
        start, at = at, at + len(list(members))
        yield group, slice(start, at)


def _groups(table: Table, widths: Sequence[int]) -> str:
    shown = [
        group.rjust(len(GAP.join("x" * width for width in widths[span])))
        for group, span in _spans(table)
    ]
    return GAP.join([" " * LABEL, *shown]).rstrip()


def _line(label: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    shown = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    return GAP.join([label.ljust(LABEL), *shown]).rstrip()

"""A table, as wide as its first rows need, or as the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from localspec.apps.chat.terminal.ink import Ink, Run, bare, cells, size

ROWS = 32  # that decide the widths of the columns, so that later rows need not be waited for
LEAST = 6  # columns of the terminal for one of the table
BETWEEN = " │ "
FAINT = "2"
Cell = Sequence[Run]
RIGHT, CENTER = "text-align:right", "text-align:center"


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    header: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    sides: Sequence[str]  # to which the columns are moved, in CSS

    @property
    def columns(self) -> list[int]:
        """Measure how wide the columns would be if there were room."""
        measured = [self.header, *self.rows[:ROWS]]
        return [max(map(size, column)) for column in zip(*measured, strict=True)]


def draw(
    table: MarkdownTable, ink: Ink, width: int, begun: Sequence[int] | None = None
) -> list[str]:
    """Draw the table, without its header where it has begun above."""
    columns = fit_columns(begun or table.columns, width - len(BETWEEN) * (len(table.header) - 1))
    if columns is None:
        return draw_list(table, ink, width, headed=begun is None)
    body = [line for row in table.rows for line in draw_row(row, columns, table.sides, ink)]
    if begun is not None:
        return body
    rule = ink.paint("─┼─".join("─" * column for column in columns), FAINT)
    return [*draw_row(table.header, columns, table.sides, ink), rule, *body]


def fit_columns(columns: Sequence[int], width: int) -> list[int] | None:
    """Narrow the widest columns until they fit; None if they would be too narrow."""
    most = max(*columns, LEAST)
    if sum(columns) > width:
        most = min(most, width)
        while most >= LEAST and sum(min(column, most) for column in columns) > width:
            most -= 1
    return [max(min(column, most), 1) for column in columns] if most >= LEAST else None


def draw_row(
    row: Sequence[Cell], columns: Sequence[int], sides: Sequence[str], ink: Ink
) -> list[str]:
    """Draw a row in as many lines as its longest cell takes."""
    written = [ink.lines(cell, column) for cell, column in zip(row, columns, strict=True)]
    between = ink.paint(BETWEEN, FAINT)
    lines = []
    for parts in zip_longest(*written, fillvalue=""):
        beside = zip(parts, columns, sides, strict=True)
        lines.append(between.join(align(*place) for place in beside).rstrip(" "))
    return lines


def align(text: str, column: int, side: str) -> str:
    free = max(column - cells(bare(text)), 0)
    left = {RIGHT: free, CENTER: free // 2}.get(side, 0)
    return " " * left + text + " " * (free - left)


def draw_list(table: MarkdownTable, ink: Ink, width: int, *, headed: bool) -> list[str]:
    """List cells one a line after their headings, where columns would be too narrow."""
    if not table.rows and headed:
        return [line for head in table.header for line in ink.lines(head, width)]
    lines = []
    for at, row in enumerate(table.rows):
        if at or not headed:
            lines.append(ink.paint("─" * min(width, LEAST), FAINT))
        for head, cell in zip(table.header, row, strict=True):
            lines += ink.lines([*head, (": ", "1"), *cell] if head else cell, width)
    return lines

"""Rows of text in columns, as the commands that list something print them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Pad each column to its longest cell; `numbers`, in all but the first, on their left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = str.rjust if numbers else str.ljust
    lines = ([row[0].ljust(widths[0]), *map(pad, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def terminal_width() -> int | None:
    """Return the width of the terminal that standard output is; None: it is another file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitting(rows: Sequence[Sequence[str]], width: int | None, spare: Sequence[str]) -> str:
    """Leave out columns, the first of `spare` first, as far as lines would not fit in a width."""
    lines = columns(rows)
    for name in spare:
        if width is None or max(map(len, lines.splitlines())) <= width:
            break
        at = rows[0].index(name)
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
        lines = columns(rows)
    return lines

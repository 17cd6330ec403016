"""Rows of text in columns, as the commands that list something print them."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Pad each column to its longest cell; `numbers`, in all but the first, on their left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pad = str.rjust if numbers else str.ljust
    lines = ([row[0].ljust(widths[0]), *map(pad, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)

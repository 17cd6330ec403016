"""Rows of text in columns, as the commands that list something print them."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Pad each column to its longest cell."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    padded = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(padded)

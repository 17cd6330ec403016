"""Drawings of a sample text with a named bracket under each of its parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from localspec.formats.dialects.layout import Layout

Part = tuple[str, str]  # a text, and its name if it has one
END_OF_LINE = "⏎"


def drawing(parts: Sequence[Part]) -> str:
    """Draw texts in a row, and under each that has a name a bracket with that name."""
    shown = [(text.replace("\n", END_OF_LINE), name) for text, name in parts]
    rows = ["", ""]
    at = 0
    for text, name in shown:
        if name and text:
            inner = f" {name} ".center(len(text) - 2, "─")
            bracket = f"└{inner}┘" if len(inner) == len(text) - 2 else _bracket(len(text))
            _put(rows, 0, at, bracket)
            if name not in bracket:
                _put_below(rows, at, name)
        at += len(text)
    lines = ["".join(text for text, _ in shown), *rows]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _bracket(size: int) -> str:
    return "│" if size == 1 else f"└{'─' * (size - 2)}┘"


def _put_below(rows: list[str], at: int, name: str) -> None:
    """Write a name in the first row below the brackets that is free there."""
    row = 1
    while len(rows[row]) >= at and rows[row]:
        row += 1
        if row == len(rows):
            rows.append("")
    _put(rows, row, at, name)


def _put(rows: list[str], row: int, at: int, text: str) -> None:
    rows[row] = rows[row].ljust(at) + text


def call_parts(layout: Layout, calls: Sequence[tuple[str, Mapping[str, str]]]) -> list[Part]:
    """List the parts of a text with these calls, each with the name of its field."""
    parts: list[Part] = []
    for at, (name, arguments) in enumerate(calls):
        parts += [(layout.again or "", "again") if at else (layout.head, "head"), (name, "")]
        parts += [(layout.name_end, "name_end"), *argument_parts(layout, arguments)]
        parts.append((layout.end, "end"))
    several = layout.closes_one or len(calls) > 1
    return [*parts, (layout.close if several else "", "close")]


def argument_parts(layout: Layout, arguments: Mapping[str, str]) -> list[Part]:
    """List the parts of a call's arguments, which are strings."""
    fields = layout.fields
    if fields is None:
        return [(json.dumps(arguments), "")]
    parts: list[Part] = []
    opening, closing = fields.quotes or ("", "")
    for at, (key, value) in enumerate(arguments.items()):
        parts += [(fields.between if at else "", "between"), (fields.key, "key"), (key, "")]
        parts += [(fields.middles[0].text, "middle"), (opening, "quotes"), (value, "")]
        parts += [(closing, "quotes"), (fields.for_key(key).end, "end")]
    return parts

"""What a terminal shows at a moment."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS, ROWS = 58, 30


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style, from a column on."""

    column: int
    text: str
    colour: str  # "default", or one that terminals have a name for
    bold: bool


Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    seconds: float  # since Enter was pressed
    rows: tuple[Row, ...]

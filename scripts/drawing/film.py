"""Recordings of a terminal as one moving picture: an SVG that needs no script.

Each pane is a strip of its frames, one below the other, of which a window shows one at a time:
an animation in steps moves the strip. Rows that several frames show are defined once. Where
somebody wants less motion, the last frame stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

COLUMNS, ROWS = 58, 30  # of the terminal
CELL, LINE, FONT = 7.2, 17, 12  # width and height of a character's cell, size of the letters
MARGIN, TITLE, CAPTION = 12, 30, 28
REST = 5.0  # seconds for which the end stands still
BEFORE = 2.0  # of these, how many come first: a preview shows the first moment, and it has text
COLOURS = {
    "default": "#d5dbe3",
    "black": "#6b7785",
    "red": "#ff8b7d",
    "green": "#7fd88f",
    "brown": "#e3b65c",
    "blue": "#79b0ff",
    "magenta": "#d7a3ff",
    "cyan": "#4fd6e0",
    "brightblack": "#8d99a8",
}
STYLE = (
    "text { white-space: pre } "
    ".page { fill: #12161c; stroke: #3a434f } .pane { fill: #181d25 } "
    ".title { fill: #f0f3f7; font-weight: 600 } .caption { fill: #8d99a8 } "
)


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


@dataclass(frozen=True, slots=True)
class Pane:
    title: str
    frames: Sequence[Frame]

    @property
    def seconds(self) -> float:
        return self.frames[-1].seconds

    @property
    def height(self) -> int:
        """Return the number of rows that are ever used."""
        return max(1 + at for frame in self.frames for at, row in enumerate(frame.rows) if row)


def draw(panes: Sequence[Pane], caption: str) -> str:
    """Draw the panes beside one another; the shorter ones wait for the longest to end."""
    rows = max(pane.height for pane in panes)
    seconds = max(pane.seconds for pane in panes) + REST
    inner, high = round(COLUMNS * CELL), rows * LINE + MARGIN
    step = inner + 3 * MARGIN
    width, height = len(panes) * step + MARGIN, TITLE + high + CAPTION + 2 * MARGIN
    defined = Rows()
    body = [
        f'<svg x="{MARGIN + at * step}" y="{MARGIN}" width="{inner + 2 * MARGIN}" '
        f'height="{TITLE + high}">{"".join(window(pane, at, rows, defined))}</svg>'
        for at, pane in enumerate(panes)
    ]
    moves = "".join(motion(pane, at, rows, seconds) for at, pane in enumerate(panes))
    below = f'x="{MARGIN + 4}" y="{height - MARGIN}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-size="{FONT}" role="img" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">',
            f"<title>{escape(', '.join(pane.title for pane in panes))}</title>",
            f"<style>{STYLE}{moves}</style>",
            f"<defs>{defined}</defs>",
            f'<rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9"/>',
            *body,
            f'<text class="caption" {below}>{escape(caption)}</text>',
            "</svg>\n",
        ]
    )


class Rows:
    """Rows by their content, each drawn once."""

    def __init__(self) -> None:
        self._numbers: dict[Row, int] = {}

    def number(self, row: Row) -> int:
        return self._numbers.setdefault(row, len(self._numbers))

    def __str__(self) -> str:
        return "\n".join(
            f'<g id="r{number}">{"".join(map(letters, row))}</g>'
            for row, number in self._numbers.items()
        )


def letters(run: Run) -> str:
    weight = ' font-weight="600"' if run.bold else ""
    colour = COLOURS.get(run.colour, COLOURS["default"])
    place = f'x="{run.column * CELL:.1f}" textLength="{len(run.text) * CELL:.1f}"'
    return f'<text {place} fill="{colour}"{weight}>{escape(run.text)}</text>'


def window(pane: Pane, at: int, rows: int, defined: Rows) -> Iterator[str]:
    """Draw a pane's title, and the strip of its frames behind a window of the pane's size."""
    yield '<rect class="pane" width="100%" height="100%" rx="6"/>'
    yield f'<text class="title" x="{MARGIN}" y="20">{escape(pane.title)}</text>'
    yield f'<svg x="{MARGIN}" y="{TITLE}" width="100%" height="{rows * LINE}">'
    yield f'<g class="strip{at}">'
    for number, frame in enumerate(pane.frames):
        for line, row in enumerate(frame.rows[:rows]):
            if row:
                y = (number * rows + line) * LINE + FONT
                yield f'<use href="#r{defined.number(row)}" y="{y}"/>'
    yield "</g></svg>"


def motion(pane: Pane, at: int, rows: int, seconds: float) -> str:
    """Move a strip by one frame at the time of each; still at its end for those who wish that."""
    height, last = rows * LINE, len(pane.frames) - 1
    steps = "".join(
        f"{100 * frame.seconds / seconds:.2f}% {{ transform: translateY({-number * height}px) }} "
        for number, frame in enumerate(pane.frames)
    )
    still = f"transform: translateY({-last * height}px)"
    return (
        f"@keyframes move{at} {{ {steps}100% {{ {still} }} }} "
        f".strip{at} {{ {still}; "
        f"animation: move{at} {seconds:.2f}s step-end {BEFORE - seconds:.2f}s infinite }} "
        f"@media (prefers-reduced-motion: reduce) {{ .strip{at} {{ animation: none; {still} }} }} "
    )

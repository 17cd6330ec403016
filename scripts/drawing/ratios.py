"""The chart of the README: ratios beside llama-server, read from the tables of the documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

TITLE = "Tokens/s relative to llama-server, one request"
CAPTION = "1: llama-server without drafts; higher is better"
SIDES = ("LocalSpec", "llama-server with ngram-mod")
WIDTH, LABELS, RIGHT = 860, 130, 60
BAR, GAP, TOP = 9, 12, 26  # heights
STEPS = (0.25, 0.5, 1.0, 2.0, 5.0)  # between lines of the grid
LINES = 9  # of a grid, at most


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a chart, and of the bars of each side; a page has a background of its own."""

    text: str
    grid: str
    bars: Sequence[str]

    @property
    def style(self) -> str:
        bars = " ".join(f".s{at} {{ fill: {colour} }}" for at, colour in enumerate(self.bars))
        return (
            f"<style>text {{ fill: {self.text} }} .grid {{ stroke: {self.grid} }} "
            f".one {{ stroke: {self.text} }} {bars}</style>"
        )


THEMES = {
    "light": Palette("#1f2933", "#d8dee6", ("#2f6fb5", "#b6c1ce")),
    "dark": Palette("#d1d9e0", "#333c47", ("#6fa8e8", "#5b6b7f")),
}


@dataclass(frozen=True, slots=True)
class Panel:
    """The ratios of both sides, by kind of text."""

    title: str
    rows: Sequence[tuple[str, Sequence[float]]]

    @property
    def height(self) -> int:
        return TOP + sum(len(ratios) * BAR + GAP for _, ratios in self.rows) + TOP


@dataclass(frozen=True, slots=True)
class Scale:
    most: float

    def x(self, value: float) -> float:
        return round(LABELS + (WIDTH // 2 - LABELS - RIGHT) * value / self.most, 1)

    @property
    def marks(self) -> list[float]:
        step = next((step for step in STEPS if self.most / step <= LINES), self.most)
        return [step * at for at in range(int(self.most / step) + 1)]


def chart(root: Path, theme: str) -> str:
    """Draw both panels beside one another, on one scale."""
    panels = (real_pair(root / "BENCHMARKS.md"), large_file(root / "docs" / "gpu.md"))
    scale = Scale(max(ratio for panel in panels for _, row in panel.rows for ratio in row))
    top = 50 + TOP
    height = top + max(panel.height for panel in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(TITLE)}</title>",
        THEMES[theme].style,
        *legend(),
    ]
    for at, panel in enumerate(panels):
        drawn = "\n".join(draw_panel(panel, scale, top))
        lines.append(f'<g transform="translate({at * WIDTH // 2} 0)">{drawn}</g>')
    return "\n".join([*lines, "</svg>"])


def legend() -> Iterator[str]:
    yield f'<text x="12" y="26" font-size="15" font-weight="600">{TITLE}</text>'
    yield f'<text x="{WIDTH - 12}" y="26" text-anchor="end">{CAPTION}</text>'
    for at, side in enumerate(SIDES):
        x, y = 12 + 205 * at, 40
        yield f'<rect class="s{at}" x="{x}" y="{y}" width="11" height="11"/>'
        yield f'<text x="{x + 17}" y="{y + 10}">{side}</text>'


def draw_panel(panel: Panel, scale: Scale, top: int) -> Iterator[str]:
    """Draw the grid, and below each other the bars of each row."""
    yield f'<text x="12" y="{top + 12}" font-weight="600">{escape(panel.title)}</text>'
    bottom = top + panel.height - TOP
    for mark in scale.marks:
        x, kind = scale.x(mark), "one" if mark == 1 else "grid"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{top + TOP - 4}" y2="{bottom}"/>'
        yield f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{mark:g}</text>'
    y = top + TOP
    for label, row in panel.rows:
        middle = y + len(row) * BAR / 2 + 4
        yield f'<text x="{LABELS - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>'
        for number, ratio in enumerate(row):
            begin, end = scale.x(0), scale.x(ratio)
            size = f'width="{round(end - begin, 1)}" height="{BAR - 1}"'
            yield f'<rect class="s{number}" x="{begin}" y="{y}" {size}/>'
            yield f'<text x="{end + 4}" y="{y + BAR - 1}" font-size="9">{ratio:.2f}</text>'
            y += BAR
        y += GAP


def real_pair(page: Path) -> Panel:
    """Read a table with a column for each kind of task and a row for each side."""
    header, *rows = table(page, "| | all | agent |")
    by_side = {row[0]: row for row in rows}
    ours, peer = by_side["LocalSpec"], by_side["llama-server `ngram-mod`"]
    kinds = header[1:-1]  # the last column is the time to the first token
    return Panel(
        "Qwen2.5-Coder-1.5B, Q4_K_M, two cores of an AMD EPYC",
        [(kind, ratios(ours[at], peer[at])) for at, kind in enumerate(kinds, 1)],
    )


def large_file(page: Path) -> Panel:
    """Read a table with a row for each kind of text and a column for each side."""
    header, _, *rows = table(page, "| one request | 8b-shaped:")
    ours = header.index("... since e64c72c")
    peer = header.index("8b-shaped: `ngram-mod`")
    return Panel(
        "a file of the size of 8B weights, NVIDIA H200",
        [(row[0], ratios(row[ours], row[peer])) for row in rows],
    )


def ratios(*cells: str) -> list[float]:
    return [float(cell.strip("*")) for cell in cells]


def table(page: Path, beginning: str) -> list[list[str]]:
    """Return the cells of the table whose header begins so, without the line below the header."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(beginning))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]

"""A chart of ratios as SVG: a panel of bars for each setting, light or dark as the page is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.comparison.plan import Setting
from benchmarks.comparison.summary import ALL, SideFigures

WIDTH, LABELS, RIGHT = 860, 130, 60
BAR, GAP, TOP = 9, 12, 26  # heights
STEPS = (0.25, 0.5, 1.0, 2.0, 5.0)  # between lines of the grid
LINES = 9  # of a grid, at most
PAGE = '<rect class="page" width="100%" height="100%"/>'
CAPTION = "higher is better; thin lines: 95% interval"


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a page, and of the bars of each side."""

    page: str
    text: str
    grid: str
    bars: Sequence[str]

    def rules(self, sides: int) -> str:
        bars = (f".s{at} {{ fill: {self.bars[at % len(self.bars)]} }}" for at in range(sides))
        return (
            f".page {{ fill: {self.page} }} text {{ fill: {self.text} }} "
            f".grid {{ stroke: {self.grid} }} .one, .noise {{ stroke: {self.text} }} "
            f"{' '.join(bars)}"
        )


LIGHT = Palette(
    "#ffffff",
    "#1f2933",
    "#d8dee6",
    ("#5b6b7f", "#d08a2e", "#7c9a3d", "#2f6fb5", "#a3507f", "#3a9a8f", "#8f6b4a", "#6a5acd"),
)
DARK = Palette(
    "#14181d",
    "#e4e9ef",
    "#333c47",
    ("#9aa8ba", "#e5ab5c", "#a8c768", "#6fa8e8", "#d684b3", "#6cc9be", "#c09a77", "#a99bf0"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio, and half its 95% interval."""

    side: str
    value: float
    width: float


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    rows: Sequence[tuple[str, Sequence[Bar]]]

    @property
    def height(self) -> int:
        return TOP + sum(len(bars) * BAR + GAP for _, bars in self.rows) + TOP


Measured = Sequence[tuple[Setting, Sequence[SideFigures]]]


def write(path: Path, title: str, measured: Measured) -> None:
    path.write_text(drawn(title, list(panels(measured))), encoding="utf-8")


def panels(measured: Measured) -> Iterator[Panel]:
    """Yield a panel for each setting of one stream by category, and one for all other settings."""
    others = []
    for setting, figures in measured:
        categories = list(dict.fromkeys(side.category for side in figures))
        if len(categories) > 1:
            rows = [(category, bars(figures, category)) for category in categories]
            yield Panel(setting.name, rows)
        else:
            name = f"{setting.depth:,} tokens" if setting.depth else setting.name
            others.append((name, bars(figures, ALL)))
    if others:
        yield Panel("several streams, and prompts by their depth", others)


def bars(figures: Sequence[SideFigures], category: str) -> list[Bar]:
    """Return the ratios of all sides but the first."""
    of_category = [side for side in figures if side.category == category]
    return [
        Bar(side.side, side.speed_ratio, side.speed_ratio * (side.noise or 0))
        for side in of_category[1:]
    ]


def drawn(title: str, parts: Sequence[Panel]) -> str:
    """Draw all panels under one legend, on one scale."""
    all_bars = bars_of(parts)
    sides = sides_of(all_bars)
    scale = Scale(most_of(all_bars))
    lines = [*legend(title, sides)]
    y = 50 + TOP * -(-len(sides) // 4)
    for part in parts:
        lines += panel(part, sides, scale, y)
        y += part.height + TOP
    return picture(title, y, style(len(sides)), lines)


def bars_of(parts: Sequence[Panel]) -> list[Bar]:
    return [bar for part in parts for _, row in part.rows for bar in row]


def sides_of(all_bars: Sequence[Bar]) -> list[str]:
    return list(dict.fromkeys(bar.side for bar in all_bars))


def most_of(all_bars: Sequence[Bar]) -> float:
    return max([1.0, *(bar.value + bar.width for bar in all_bars)])


def picture(title: str, height: int, colours: str, lines: Sequence[str]) -> str:
    """Return the whole file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", colours, *lines, "</svg>"])


@dataclass(frozen=True, slots=True)
class Scale:
    most: float
    width: int = WIDTH

    def x(self, value: float) -> float:
        return round(LABELS + (self.width - LABELS - RIGHT) * value / self.most, 1)

    @property
    def marks(self) -> list[float]:
        step = next((step for step in STEPS if self.most / step <= LINES), self.most)
        return [step * at for at in range(int(self.most / step) + 1)]


def style(sides: int) -> str:
    """Name the colours of the page and of the sides, and other ones where the page is dark."""
    dark = f"@media (prefers-color-scheme: dark) {{ {DARK.rules(sides)} }}"
    return f"<style>{LIGHT.rules(sides)} {dark}</style>{PAGE}"


def legend(title: str, sides: Sequence[str], caption: str = CAPTION) -> Iterator[str]:
    yield f'<text x="12" y="26" font-size="15" font-weight="600">{escape(title)}</text>'
    yield f'<text x="{WIDTH - 12}" y="26" text-anchor="end">{caption}</text>'
    for at, side in enumerate(sides):
        x, y = 12 + 205 * (at % 4), 40 + TOP * (at // 4)
        yield f'<rect class="s{at}" x="{x}" y="{y}" width="11" height="11"/>'
        yield f'<text x="{x + 17}" y="{y + 10}">{escape(side)}</text>'


def panel(part: Panel, sides: Sequence[str], scale: Scale, top: int) -> Iterator[str]:
    """Draw the grid, and below each other the bars of each row with their noise."""
    yield f'<text x="12" y="{top + 12}" font-weight="600">{escape(part.title)}</text>'
    bottom = top + part.height - TOP
    for mark in scale.marks:
        x, kind = scale.x(mark), "one" if mark == 1 else "grid"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{top + TOP - 4}" y2="{bottom}"/>'
        yield f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{mark:g}</text>'
    y = top + TOP
    for label, row in part.rows:
        middle = y + len(row) * BAR / 2 + 4
        yield f'<text x="{LABELS - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>'
        for bar in row:
            yield from drawn_bar(bar, sides.index(bar.side), scale, y)
            y += BAR
        y += GAP


def drawn_bar(bar: Bar, number: int, scale: Scale, y: int) -> Iterator[str]:
    begin, end = scale.x(0), scale.x(bar.value)
    size = f'width="{round(end - begin, 1)}" height="{BAR - 1}"'
    yield f'<rect class="s{number}" x="{begin}" y="{y}" {size}/>'
    low, high = scale.x(bar.value - bar.width), scale.x(bar.value + bar.width)
    if bar.width:
        height = y + (BAR - 1) / 2
        yield f'<line class="noise" x1="{low}" x2="{high}" y1="{height}" y2="{height}"/>'
    yield f'<text x="{high + 4}" y="{y + BAR - 1}" font-size="9">{bar.value:.2f}</text>'

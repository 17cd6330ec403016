"""The chart of the README: ratios beside llama-server, read from the tables of the documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.comparison.chart import (
    DARK,
    LIGHT,
    PAGE,
    TOP,
    WIDTH,
    Bar,
    Palette,
    Panel,
    Scale,
    bars_of,
    legend,
    most_of,
    panel,
    picture,
    sides_of,
)

TITLE = "Tokens/s relative to llama-server, one request"
CAPTION = "1: llama-server without drafts; higher is better"
# A page that shows the chart has a background of its own.
THEMES = {
    "light": replace(LIGHT, page="none", bars=("#2f6fb5", "#b6c1ce")),
    "dark": replace(DARK, page="none", text="#d1d9e0", bars=("#6fa8e8", "#5b6b7f")),
}
OURS, PEER = "LocalSpec", "llama-server with ngram-mod"


def chart(root: Path, theme: str) -> str:
    """Draw both panels beside one another, on one scale."""
    parts = (real_pair(root / "BENCHMARKS.md"), large_file(root / "docs" / "gpu.md"))
    bars = bars_of(parts)
    scale, top = Scale(most_of(bars), WIDTH // 2), 50 + TOP
    lines = list(legend(TITLE, sides_of(bars), CAPTION))
    for at, part in enumerate(parts):
        drawn = "\n".join(panel(part, sides_of(bars), scale, top))
        lines.append(f'<g transform="translate({at * WIDTH // 2} 0)">{drawn}</g>')
    height = top + max(part.height for part in parts)
    return picture(TITLE, height, colours(THEMES[theme]), lines)


def colours(palette: Palette) -> str:
    return f"<style>{palette.rules(len(palette.bars))}</style>{PAGE}"


def real_pair(page: Path) -> Panel:
    """Read a table with a column for each kind of task and a row for each side."""
    header, *rows = table(page, "| | all | agent |")
    by_side = {row[0]: row for row in rows}
    ours, peer = by_side["LocalSpec"], by_side["llama-server `ngram-mod`"]
    kinds = header[1:-1]  # the last column is the time to the first token
    return Panel(
        "Qwen2.5-Coder-1.5B, Q4_K_M, two cores of an AMD EPYC",
        [(kind, pair(ours[at], peer[at])) for at, kind in enumerate(kinds, 1)],
    )


def large_file(page: Path) -> Panel:
    """Read a table with a row for each kind of text and a column for each side."""
    header, _, *rows = table(page, "| one request | 8b-shaped:")
    ours = header.index("... since e64c72c")
    peer = header.index("8b-shaped: `ngram-mod`")
    return Panel(
        "a file of the size of 8B weights, NVIDIA H200",
        [(row[0], pair(row[ours], row[peer])) for row in rows],
    )


def pair(ours: str, peer: str) -> Sequence[Bar]:
    return [Bar(OURS, ratio(ours), 0.0), Bar(PEER, ratio(peer), 0.0)]


def ratio(cell: str) -> float:
    return float(cell.strip("*"))


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

"""Tables of a comparison, and everything that was measured as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from benchmarks.comparison.goals import Goal
from benchmarks.comparison.measure import Volley
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.summary import ALL, SideFigures
from benchmarks.serving.table import table

HEAD = (
    "server",
    "tokens/s",
    "ratio",
    "first token p50, ms",
    "p95",
    "ratio of p50",
    "of p95",
    "gap p50, ms",
    "p95",
    "longest",
    "same texts",
    "prompt from a cache",
)
DIGITS = 5  # of seconds in the JSON

Measure = Literal["tokens/s", "first token, ms"]


def shown(setting: Setting, figures: Sequence[SideFigures], judged: Sequence[Goal]) -> str:
    """Lay out a setting: all categories together, one by one if there are, and the goals."""
    whole = [side_figures for side_figures in figures if side_figures.category == ALL]
    size = f"Prompts of {whole[0].prompt_tokens:,.0f} tokens on average."
    parts = [f"## {setting.name}", size, table(HEAD, rows(setting, whole))]
    if len(figures) > len(whole):
        parts += [by_category(figures, "tokens/s"), by_category(figures, "first token, ms")]
    parts.append("\n".join(f"* {goal}" for goal in judged))
    return "\n\n".join(part for part in parts if part)


def rows(setting: Setting, figures: Sequence[SideFigures]) -> Iterator[list[str]]:
    for side_figures in figures:
        same = f"{side_figures.same_texts:.0%}" if setting.temperature == 0 else ""
        yield [*row(side_figures), same, f"{side_figures.cached:.0%}"]


def row(figures: SideFigures) -> list[str]:
    return [
        figures.side,
        f"{figures.speed:.1f}",
        f"{figures.speed_ratio:.2f}",
        *(f"{seconds * 1e3:,.0f}" for seconds in (figures.first_p50, figures.first_p95)),
        f"{figures.first_ratio:.2f}",
        f"{figures.first_p95_ratio:.2f}",
        *(f"{s * 1e3:,.0f}" for s in (figures.gap_p50, figures.gap_p95, figures.gap_longest)),
    ]


def by_category(figures: Sequence[SideFigures], measure: Measure) -> str:
    """Show the first side, and the others as ratios to it."""
    sides = list(dict.fromkeys(side_figures.side for side_figures in figures))
    lines: dict[str, list[str]] = {}
    for side_figures in figures:
        own, relative = side_figures.speed, side_figures.speed_ratio
        if measure == "first token, ms":
            own, relative = side_figures.first_p50 * 1e3, side_figures.first_ratio
        cell = f"{own:,.1f}" if side_figures.side == sides[0] else f"{relative:.2f}"
        lines.setdefault(side_figures.category, [side_figures.category]).append(cell)
    return table(["category", f"{sides[0]}, {measure}", *sides[1:]], lines.values())


def record(
    setting: Setting,
    figures: Sequence[SideFigures],
    judged: Sequence[Goal],
    volleys: Sequence[Volley],
) -> dict[str, object]:
    """Return a setting as JSON has it."""
    return {
        "setting": setting.name,
        "streams": setting.streams,
        "temperature": setting.temperature,
        "context": setting.context,
        "figures": [asdict(side_figures) for side_figures in figures],
        "goals": [{**asdict(goal), "met": goal.met} for goal in judged],
        "volleys": [asdict(volley) for volley in volleys],
    }


def save(path: Path, heading: Mapping[str, object], settings: Sequence[object]) -> None:
    """Write everything so far; called again after every setting."""
    report = rounded({**heading, "settings": settings})
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value

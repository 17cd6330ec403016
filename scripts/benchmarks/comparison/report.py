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


def shown(setting: Setting, found: Sequence[SideFigures], judged: Sequence[Goal]) -> str:
    """Lay out a setting: all categories together, one by one if there are, and the goals."""
    whole = [each for each in found if each.category == ALL]
    size = f"Prompts of {whole[0].prompt_tokens:,.0f} tokens on average."
    parts = [f"## {setting.name}", size, table(HEAD, rows(setting, whole))]
    if len(found) > len(whole):
        parts += [by_category(found, "tokens/s"), by_category(found, "first token, ms")]
    parts.append("\n".join(f"* {goal}" for goal in judged))
    return "\n\n".join(part for part in parts if part)


def rows(setting: Setting, found: Sequence[SideFigures]) -> Iterator[list[str]]:
    for each in found:
        same = f"{each.same_texts:.0%}" if setting.temperature == 0 else ""
        yield [*row(each), same, f"{each.cached:.0%}"]


def row(found: SideFigures) -> list[str]:
    return [
        found.side,
        f"{found.speed:.1f}",
        f"{found.speed_ratio:.2f}",
        *(f"{seconds * 1e3:,.0f}" for seconds in (found.first_p50, found.first_p95)),
        f"{found.first_ratio:.2f}",
        f"{found.first_p95_ratio:.2f}",
        *(f"{s * 1e3:,.0f}" for s in (found.gap_p50, found.gap_p95, found.gap_longest)),
    ]


def by_category(found: Sequence[SideFigures], measure: Measure) -> str:
    """Show the first side, and the others as ratios to it."""
    sides = list(dict.fromkeys(each.side for each in found))
    lines: dict[str, list[str]] = {}
    for each in found:
        own, relative = each.speed, each.speed_ratio
        if measure == "first token, ms":
            own, relative = each.first_p50 * 1e3, each.first_ratio
        cell = f"{own:,.1f}" if each.side == sides[0] else f"{relative:.2f}"
        lines.setdefault(each.category, [each.category]).append(cell)
    return table(["category", f"{sides[0]}, {measure}", *sides[1:]], lines.values())


def record(
    setting: Setting,
    found: Sequence[SideFigures],
    judged: Sequence[Goal],
    volleys: Sequence[Volley],
) -> dict[str, object]:
    """Return a setting as JSON has it."""
    return {
        "setting": setting.name,
        "streams": setting.streams,
        "temperature": setting.temperature,
        "context": setting.context,
        "figures": [asdict(each) for each in found],
        "goals": [{**asdict(goal), "met": goal.met} for goal in judged],
        "volleys": [asdict(each) for each in volleys],
    }


def save(path: Path, heading: Mapping[str, object], settings: Sequence[object]) -> None:
    """Write everything so far; called again after every setting."""
    found = rounded({**heading, "settings": settings})
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(found, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)


def rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value

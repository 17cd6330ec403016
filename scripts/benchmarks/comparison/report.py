"""Tables of a comparison, and everything that was measured as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.comparison.measure import Volley
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.summary import ALL, Leads, SideFigures
from localspec.base.system.atomic_write import write

HEAD = (
    "server",
    "tokens/s",
    "ratio",
    "of whole replies",
    "first token p50, ms",
    "p95",
    "ratio of p50",
    "of p95",
    "gap p95, ms",
    "longest",
    "prompt from a cache",
)
TEXTS = ("same texts", "parted at a near-tie")
DRAFTS = ("server", "tokens a forward", "drafted", "accepted", "accepted by position")
POSITIONS = (1, 2, 3, 4, 8, 16, 32, 64)  # of a draft, that are shown
DIGITS = 5  # of seconds in the JSON

Cell = Callable[[SideFigures], str]


def shown(setting: Setting, figures: Sequence[SideFigures]) -> str:
    """Lay out a setting: all categories together, and one by one if there are."""
    whole = of_all(figures)
    size = f"Prompts of {whole[0].prompt_tokens:,.0f} tokens on average. {noise_line(whole)}"
    greedy = setting.temperature == 0
    rows = ([*row(side), *(texts(side) if greedy else ())] for side in whole)
    parts = [
        f"## {setting.name}",
        size,
        other_prompts(whole),
        table((*HEAD, *(TEXTS if greedy else ())), rows),
    ]
    if any(side.drafted for side in whole):
        parts.append(table(DRAFTS, (draft_row(side) for side in whole if side.drafted)))
    if len(figures) > len(whole):
        parts += [by_category(figures, "tokens/s", speed, ratio)]
        parts += [by_category(figures, "first token, ms", first, first_ratio)]
    return "\n\n".join(part for part in parts if part)


def of_all(figures: Sequence[SideFigures]) -> list[SideFigures]:
    return [side for side in figures if side.category == ALL]


def other_prompts(whole: Sequence[SideFigures]) -> str:
    """Warn of servers whose chat template makes another prompt of the same messages."""
    first, *others = whole
    return "\n".join(
        f"{side.side} read other prompts: of {side.prompt_tokens:,.1f} tokens on average, where "
        f"{first.side} read {first.prompt_tokens:,.1f}. Their texts cannot be compared."
        for side in others
        if side.prompt_tokens != first.prompt_tokens
    )


def noise_line(whole: Sequence[SideFigures]) -> str:
    if whole[-1].noise is None:
        return "One round does not tell a difference from noise."
    return (
        "Medians of the rounds, with the lowest and the highest. "
        "±: the 95% interval of a ratio by its differences from round to round; ≈: within it."
    )


def row(side: SideFigures) -> list[str]:
    return [
        side.side,
        spread(side),
        ratio(side),
        f"{side.whole_ratio:.2f}",
        *(f"{seconds * 1e3:,.0f}" for seconds in (side.first_p50, side.first_p95)),
        first_ratio(side),
        f"{side.first_p95_ratio:.2f}",
        *(f"{seconds * 1e3:,.0f}" for seconds in (side.gap_p95, side.gap_longest)),
        f"{side.cached:.0%}",
    ]


def spread(side: SideFigures) -> str:
    if len(side.speeds) == 1:
        return speed(side)
    return f"{speed(side)} ({min(side.speeds):.1f} to {max(side.speeds):.1f})"


def speed(side: SideFigures) -> str:
    return f"{side.speed:.1f}"


def ratio(side: SideFigures) -> str:
    """Show the ratio to the first side with its noise, and whether it is more than that."""
    width = side.speed_ratio * (side.noise or 0)
    if not width:
        return f"{side.speed_ratio:.2f}"
    near = " ≈" if abs(side.speed_ratio - 1) <= width else ""
    return f"{side.speed_ratio:.2f} ±{width:.2f}{near}"


def first(side: SideFigures) -> str:
    return f"{side.first_p50 * 1e3:,.0f}"


def first_ratio(side: SideFigures) -> str:
    return f"{side.first_ratio:.2f}"


def texts(side: SideFigures) -> list[str]:
    return [f"{side.same_texts:.0%}", f"{side.near_ties:.0%}"]


def draft_row(side: SideFigures) -> list[str]:
    shares = enumerate(side.acceptance, 1)
    positions = ", ".join(f"{at}: {share:.2f}" for at, share in shares if at in POSITIONS)
    counts = (f"{count:,}" for count in (side.drafted, side.accepted))
    return [side.side, f"{side.tokens_a_forward:.2f}", *counts, positions]


def by_category(figures: Sequence[SideFigures], measure: str, own: Cell, relative: Cell) -> str:
    """Show the first side, and the others as ratios to it."""
    sides = list(dict.fromkeys(side.side for side in figures))
    lines: dict[str, list[str]] = {}
    for side in figures:
        cell = own if side.side == sides[0] else relative
        lines.setdefault(side.category, [side.category]).append(cell(side))
    return table(["category", f"{sides[0]}, {measure}", *sides[1:]], lines.values())


def curve(measured: Mapping[int, Sequence[SideFigures]]) -> str:
    """Show speeds by the depth of the context: the first side, and the others as ratios to it."""
    parts = ["## By depth of the context"]
    for measure, own, relative in (
        ("tokens/s", speed, ratio),
        ("first token, ms", first, first_ratio),
    ):
        rows, sides = [], []
        for whole in map(of_all, measured.values()):
            sides = [side.side for side in whole]
            tokens = f"{whole[0].prompt_tokens:,.0f}"
            rows.append([tokens, own(whole[0]), *map(relative, whole[1:])])
        parts.append(table(["prompt, tokens", f"{sides[0]}, {measure}", *sides[1:]], rows))
    return "\n\n".join(parts)


def record(
    setting: Setting,
    figures: Sequence[SideFigures],
    volleys: Sequence[Volley],
    leads: Leads,
) -> dict[str, object]:
    """Return a setting as JSON has it."""
    names = ("side", "round", "section", "reply", "lead")
    return {
        "setting": setting.name,
        "streams": setting.streams,
        "temperature": setting.temperature,
        "context": setting.context,
        "depth": setting.depth,
        "figures": [asdict(side) for side in figures],
        "near_ties": [dict(zip(names, (*at, lead), strict=True)) for at, lead in leads.items()],
        "volleys": [asdict(volley) for volley in volleys],
    }


def save(path: Path, heading: Mapping[str, object], settings: Sequence[object]) -> None:
    """Write everything so far; called again after every setting."""
    report = rounded({**heading, "settings": settings})
    write(path, json.dumps(report, ensure_ascii=False) + "\n")


def rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

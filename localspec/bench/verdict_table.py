"""The table beside the verdict: kinds of prompts, and how fast each mode answers them."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.bench.table import GAP
from localspec.bench.verdict import AUTO, LOOKUP, Drafter, Verdict

FASTEST = 4  # of the modes that a user names: more do not fit in 80 columns


def verdict_table(verdict: Verdict, drafter: Drafter | None) -> str:
    """Format plain decoding in tokens a second, and the modes that decide against it."""
    modes = deciding(verdict)
    lines = [
        ["", "plain", *(title(mode, drafter) for mode in modes)],
        ["", "tokens/s", *["times plain"] * len(modes)],
        *(
            [row.kind, f"{row.plain:.1f}", *(str(row.ratios[mode]) for mode in modes)]
            for row in verdict.rows
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(line, widths) for line in lines)


def deciding(verdict: Verdict) -> list[str]:
    """Name the modes that the verdict is about."""
    ratios = verdict.rows[-1].ratios
    if AUTO in ratios:
        return [mode for mode in (LOOKUP, AUTO) if mode in ratios]
    return sorted(ratios, key=lambda mode: -ratios[mode].value)[:FASTEST]


def title(mode: str, drafter: Drafter | None) -> str:
    """Name a mode for a user."""
    if mode == AUTO:
        return f"with {drafter.name}" if drafter else "with drafts"
    return "by prompt lookup" if mode == LOOKUP else mode


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    shown = [first.ljust(widths[0])]
    shown += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return GAP.join(shown).rstrip()

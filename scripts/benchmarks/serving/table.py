"""Tables as docs/lab/ has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def milliseconds(seconds: Sequence[float], *percents: int) -> list[str]:
    """Format percentiles."""
    return [f"{value * 1e3:,.0f}" for value in np.percentile(seconds, percents)]


def median(values: Sequence[float]) -> float:
    return float(np.median(values))

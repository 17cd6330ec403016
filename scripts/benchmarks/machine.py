"""The heading above every table, and the format of times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.bench.machine import command, machine, revision, versions


def heading() -> str:
    return "\n".join(
        (
            f"command    {command('scripts/bench')}",
            f"revision   {revision()}",
            f"versions   {versions()}",
            f"machine    {machine()}",
        )
    )


def spread(seconds: Sequence[float], unit: float = 1e-6) -> str:
    p50, p95 = np.percentile(seconds, [50, 95]) / unit
    return f"p50 {p50:8.1f}   p95 {p95:8.1f}"

"""The heading above every table, and the format of times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.apps.bench.machine import facts


def heading(script: str = "scripts/bench", **more: object) -> str:
    return "\n".join(f"{name:<10} {fact}" for name, fact in (facts(script) | more).items() if fact)


def spread(seconds: Sequence[float], unit: float = 1e-6) -> str:
    p50, p95 = np.percentile(seconds, [50, 95]) / unit
    return f"p50 {p50:8.1f}   p95 {p95:8.1f}"

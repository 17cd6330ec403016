"""A predicate: does one more draft token pay, by the confidences of those before it? No numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Pays = Callable[[Sequence[float]], bool]


def always(confidences: Sequence[float]) -> bool:  # noqa: ARG001
    """One more token pays, whatever the confidences of those before."""
    return True


def likely(floor: float) -> Pays:
    """One more token pays while the chance that all are right is not under a floor."""
    return lambda confidences: math.prod(confidences) >= floor

"""The places where Python waits for the device, or hands work to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mlx.core as mx
import numpy as np

CLEARED_EVERY = 256  # evaluations after which buffers no longer in use are given back


class Host:
    def __init__(self) -> None:
        self.evaluations = 0
        self.reads = 0

    def start(self, *arrays: Iterable[mx.array]) -> None:
        """Begin to evaluate arrays, and do not wait."""
        mx.async_eval(*map(list, arrays))  # type: ignore[no-untyped-call]
        self._count()

    def finish(self, *arrays: Iterable[mx.array]) -> None:
        """Wait until arrays are evaluated."""
        mx.eval(*map(list, arrays))
        self._count()

    def read(self, array: mx.array) -> Any:
        """View an array's memory where it is shared with the device, else copy it."""
        self.reads += 1
        return np.asarray(array)

    def _count(self) -> None:
        self.evaluations += 1
        if self.evaluations % CLEARED_EVERY == 0:
            mx.clear_cache()

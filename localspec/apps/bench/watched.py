"""A target that reports what its latest forward verified, and how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import LogitRows, Logits
from localspec.interfaces.abilities import Choose, MultiStep
from localspec.interfaces.backend import Model, Roll, Row, Saved
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import WrappedModel


@dataclass(frozen=True, slots=True)
class Forward:
    drafted: int  # of draft tokens
    seconds: float  # of each, where several were run at once


class Watched(WrappedModel):
    """Wraps a target, under any proposer and depth."""

    def __init__(self, model: Model, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(model)
        self.latest = Forward(0, 0.0)
        self._clock = clock
        self.multi_step = self._timed(model) if isinstance(model, MultiStep) else None

    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        begun = self._clock()
        logits = self._model.forward(rows)
        self.latest = Forward(sum(row.tentative for row in rows), self._clock() - begun)
        return logits

    def _timed(self, model: MultiStep) -> Callable[[Sequence[int], Sequence[int], Choose], None]:
        def timed(slots: Sequence[int], tokens: Sequence[int], choose: Choose) -> None:
            begun, forwards = self._clock(), 0

            def counted(logits: Sequence[Logits]) -> Sequence[int] | None:
                nonlocal forwards
                forwards += 1
                return choose(logits)

            model.multi_step(slots, tokens, counted)
            self.latest = Forward(0, (self._clock() - begun) / max(forwards, 1))

        return timed

    def copy(self, source: int, target: int, length: int) -> int:
        return self._model.copy(source, target, length)

    def save(self, slot: int, most: int) -> Saved | None:
        return self._model.save(slot, most)

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        return self._model.restore(slot, data, length)

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        return self._model.roll(rolls)

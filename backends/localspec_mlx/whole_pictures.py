"""Where slots hold pictures whose positions see each other: each is forgotten as a whole."""

from __future__ import annotations

from collections import defaultdict

import mlx.core as mx
import numpy as np

from localspec_mlx.array_form import Arrays


class WholePictures:
    def __init__(self) -> None:
        self._places: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def append(self, slot: int, start: int, end: int) -> None:
        self.cut(slot, start)
        self._places[slot].append((start, end))

    def edge(self, slot: int, length: int) -> int:
        """Return the largest length up to `length` that cuts no picture."""
        return next((start for start, end in self._places[slot] if start < length < end), length)

    def cut(self, slot: int, length: int) -> None:
        """Forget those that do not end in the first `length` tokens."""
        self.copy(slot, slot, length)

    def copy(self, source: int, target: int, length: int) -> None:
        self._places[target] = [place for place in self._places[source] if place[1] <= length]

    def content(self, slot: int) -> Arrays:
        """Return the places of a slot's pictures, to `fill` another one with."""
        places = self._places[slot]
        return [mx.array(np.array(places, np.int32))] if places else [None]

    def fill(self, slot: int, content: Arrays) -> None:
        [places] = content
        self._places[slot] = (
            [] if places is None else [(a, b) for a, b in np.array(places).tolist()]
        )

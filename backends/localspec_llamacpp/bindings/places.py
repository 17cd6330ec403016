"""Where tokens and positions of sequences part: after pictures.

tokens      a b < 12 of a picture > c
positions   0 1 2 2 2 2 ...  2 2 2  6    of one that counts 4, as it is 4 wide and 3 high
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localspec_llamacpp.bindings.batch import Part

NUMBER = 8  # bytes of a number that is saved


class Stretch(NamedTuple):
    """Tokens of a picture that are forgotten together, if any of them is."""

    start: int  # tokens before it
    tokens: int
    positions: int  # that it counts

    @property
    def end(self) -> int:
        return self.start + self.tokens


class Places:
    """The stretches of each sequence; one without any has a position for each token."""

    def __init__(self) -> None:
        self._stretches: dict[int, tuple[Stretch, ...]] = {}

    def edge(self, sequence: int, length: int) -> int:
        """Return the largest length up to `length` that cuts no stretch."""
        every = self._stretches.get(sequence, ())
        starts = (stretch.start for stretch in every if stretch.start < length < stretch.end)
        return next(starts, length)

    def position(self, sequence: int, length: int) -> int:
        """Return the position after the first tokens; within a stretch: where that begins."""
        if sequence not in self._stretches:
            return length
        end = self.edge(sequence, length)
        before = (stretch for stretch in self._stretches[sequence] if stretch.end <= end)
        return end - sum(stretch.tokens - stretch.positions for stretch in before)

    def placed(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Give parts their positions, in place of the tokens before them."""
        if not self._stretches:
            return parts
        return [p._replace(position=self.position(p.sequence, p.position)) for p in parts]

    def append(self, sequence: int, stretch: Stretch) -> None:
        self._stretches[sequence] = (*self._stretches.get(sequence, ()), stretch)

    def copy(self, source: int, target: int, length: int) -> None:
        """Give a sequence the stretches in the first tokens of another, or its own; -1: all."""
        every = self._stretches.get(source, ())
        kept = tuple(one for one in every if length < 0 or one.end <= length)
        self._stretches.pop(target, None)
        if kept:
            self._stretches[target] = kept

    def clear(self, sequence: int) -> None:
        self._stretches.pop(sequence, None)

    def save(self, sequence: int) -> NDArray[np.uint8]:
        """Save the numbers of its stretches, and after them how many there are."""
        stretches = self._stretches.get(sequence, ())
        return np.array([*sum(stretches, ()), len(stretches)], np.int64).view(np.uint8)

    def restore(self, sequence: int, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Take what `save` gave from the end of some data; return what is before."""
        count = int(data[-NUMBER:].view(np.int64)[0])
        start = len(data) - NUMBER * (1 + 3 * count)
        for numbers in data[start:-NUMBER].view(np.int64).reshape(-1, 3).tolist():
            self.append(sequence, Stretch(*numbers))
        return data[:start]

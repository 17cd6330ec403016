"""The hidden states that a head has not read yet, in a buffer with room for more."""

from __future__ import annotations

import numpy as np

from localspec.interfaces.backend import MAX_HEAD_LAG
from localspec_llamacpp.bindings.batch import Hidden


class BufferedRows:
    """Rows of the trunk's states, for `TextProgress`; what it returns is valid until it changes."""

    __slots__ = ("_count", "_rows")

    def __init__(self, width: int) -> None:
        self._rows = np.empty((0, width), np.float32)
        self._count = 0

    def append(self, states: Hidden, start: int) -> None:
        """Append the states from index `start` on; -1: after zeros, for before the first token."""
        added, zeros = states[max(start, 0) :], 1 if start < 0 else 0
        begin = self._count + zeros
        end = begin + len(added)
        if end > len(self._rows):  # enlarged with room for what a head lets wait
            grown = np.empty((end + MAX_HEAD_LAG, self._rows.shape[1]), np.float32)
            grown[: self._count] = self._rows[: self._count]
            self._rows = grown
        self._rows[self._count : begin] = 0
        self._rows[begin:end] = added
        self._count = end

    def first(self, count: int) -> Hidden:
        return self._rows[: min(count, self._count)]

    def drop(self, count: int) -> None:
        self._rows = self._rows[count : self._count].copy()  # a view would keep all of them
        self._count = len(self._rows)

    def keep(self, count: int) -> None:
        self._count = min(count, self._count)

    def copied(self) -> BufferedRows:
        twin = BufferedRows(0)
        twin._rows, twin._count = self._rows[: self._count].copy(), self._count
        return twin

"""The ways to truncate a slot, by the kind of memory its model has.

Attention takes back any number of tokens. A recurrent layer keeps one state, so something must
have been put aside: snapshots that llama.cpp writes for the newest tokens of a batch, where the
architecture has them, or a copy of the states before a draft that is longer than these reach;
else a checkpoint, a second sequence that shares the slot's state until the slot moves on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.interfaces.backend import Row
from localspec_llamacpp.bindings.memory import SequenceMemory

COPIED = 256  # tokens that are copied in the time that one is read in, and less
REPLAY = 8  # known tokens that may be fed again after a rejection, not in a batch of their own


class Undo(Protocol):
    def ahead(self, row: Row) -> int:
        """Count the leading tokens of a row that must be fed in a batch before the others."""

    def mark(self, rows: Sequence[Row], held: Sequence[int]) -> None:
        """Put aside what truncating the rows' tentative tokens will need."""

    def back(self, slot: int, length: int) -> int:
        """Go back to `length` tokens or as few fewer as possible; 0: it cannot be done."""

    def share(self, source: int, target: int, length: int, held: int) -> bool:
        """Give an empty slot the first `length` of the `held` tokens of another, if possible."""

    def forget(self, slot: int) -> None:
        """Note that the slot is empty now."""


def settled_ahead(row: Row) -> int:
    """Count the known tokens of a row to be fed alone, so that they are not taken back again."""
    settled = len(row.tokens) - row.tentative
    return settled - 1 if settled > REPLAY else 0


class AttentionUndo:
    """Keeps every token, but for layers with a window: those forget what has left it."""

    def __init__(self, memory: SequenceMemory, window: int) -> None:
        self._memory = memory
        self._window = window

    def ahead(self, row: Row) -> int:
        return 0

    def mark(self, rows: Sequence[Row], held: Sequence[int]) -> None:
        pass

    def back(self, slot: int, length: int) -> int:
        needed = max(0, self._memory.places.position(slot, length) - self._window)
        if self._window and self._memory.oldest(slot) > needed:
            return 0
        return length if self._memory.remove(slot, length) else 0

    def share(self, source: int, target: int, length: int, held: int) -> bool:
        if self._memory.pooled:
            # A cell that two sequences share is not reused once it has left the window: the pool,
            # only as large as the windows, would run full.
            return not self._window and self._memory.copy(source, target, length)
        if length * COPIED < held:
            return False
        return self._memory.copy(source, target, length) and self.back(target, length) > 0

    def forget(self, slot: int) -> None:
        pass


class SnapshotUndo:
    """Goes a few tokens back, once and only right after the batch; for a model with a single slot.

    Beyond that llama.cpp says yes and restores another state: snapshots stand after tokens of
    the newest batch only, and are lost when slots of different widths share one. So a longer draft
    is taken back to the copy of the states before it, in the host's memory: 20 MB are copied there
    in 14 ms the first time, and in 1.2 from then on.
    """

    def __init__(self, memory: SequenceMemory, snapshots: int) -> None:
        self._memory, self._snapshots = memory, snapshots
        self._oldest: int | None = None  # the shortest length that may have a snapshot
        self._copied = 0  # tokens after which the states were those of the copy; 0: there is none
        self._copy: NDArray[np.uint8] | None = None

    def ahead(self, row: Row) -> int:
        return settled_ahead(row) if self._is_long(row) else 0

    def mark(self, rows: Sequence[Row], held: Sequence[int]) -> None:
        [row] = rows
        length = held[row.slot]
        self._oldest = length + 1
        if self._is_long(row) and length != self._copied:
            self._copy = self._memory.save_states(row.slot, self._copy) if length else self._copy
            self._copied = 0 if self._copy is None else length

    def _is_long(self, row: Row) -> bool:
        return row.tentative > self._snapshots

    def back(self, slot: int, length: int) -> int:
        covered = self._oldest is not None and self._oldest <= length
        if covered and self._memory.remove(slot, length):
            return length
        self._oldest = None
        if self._copy is None or not 0 < self._copied <= length:
            return 0
        restored = self._memory.restore_states(slot, self._copy, self._copied)
        return self._copied if restored else 0

    def share(self, source: int, target: int, length: int, held: int) -> bool:
        return False

    def forget(self, slot: int) -> None:
        self._oldest, self._copied = None, 0


class CheckpointUndo:
    """Goes back to before the tentative tokens, as often as needed."""

    def __init__(self, memory: SequenceMemory, slots: int) -> None:
        self._memory = memory
        self._slots = slots
        self._lengths = [0] * slots  # of the checkpoints; 0: there is none

    def ahead(self, row: Row) -> int:
        return settled_ahead(row) if row.tentative else 0

    def mark(self, rows: Sequence[Row], held: Sequence[int]) -> None:
        for row in rows:
            begins = len(row.tokens) >= row.tentative > 0  # else the checkpoint is older, and stays
            if begins and held[row.slot]:
                self._set(row.slot, held[row.slot])

    def _set(self, slot: int, length: int) -> None:
        if length != self._lengths[slot]:
            self._memory.clear(slot + self._slots)
            self._memory.copy(slot, slot + self._slots, -1)
            self._lengths[slot] = length

    def back(self, slot: int, length: int) -> int:
        if not 0 < self._lengths[slot] <= length:
            return 0
        self._memory.clear(slot)
        self._memory.copy(slot + self._slots, slot, -1)
        return self._lengths[slot]

    def share(self, source: int, target: int, length: int, held: int) -> bool:
        if length != held:
            return False
        return self._memory.copy(source, target, -1)

    def forget(self, slot: int) -> None:
        self._memory.clear(slot + self._slots)
        self._lengths[slot] = 0

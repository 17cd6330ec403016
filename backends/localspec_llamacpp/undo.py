"""How a slot takes tokens back, by the kind of memory its model has.

Attention takes back any number of tokens. A recurrent layer keeps one state, so something must
have been put aside: snapshots that llama.cpp writes for the newest tokens of a batch, where the
architecture has them; else a checkpoint, a second sequence that shares the slot's state until
the slot moves on.
"""

from __future__ import annotations

from typing import Protocol

from localspec.backend import Row
from localspec_llamacpp.bindings import Context

REPLAY = 8  # known tokens that may be fed again after a rejection, not in a batch of their own


class Undo(Protocol):
    def ahead(self, row: Row) -> int:
        """How many leading tokens of a row must be fed in a batch before the others."""

    def mark(self, row: Row, held: int) -> None:
        """Put aside what taking back the row's tentative tokens will need."""

    def back(self, slot: int, length: int) -> int:
        """Go back to `length` tokens or as few fewer as possible; 0: it cannot be done."""

    def shares(self, slot: int, length: int, held: int) -> bool:
        """Whether another slot could take over the first `length` tokens."""

    def forget(self, slot: int) -> None:
        """The slot is empty now."""


class Attention:
    """Every token is kept, but for layers with a window: those forget what has left it."""

    def __init__(self, context: Context, window: int) -> None:
        self._context = context
        self._window = window

    def ahead(self, row: Row) -> int:
        return 0

    def mark(self, row: Row, held: int) -> None:
        pass

    def back(self, slot: int, length: int) -> int:
        needed = max(0, length - self._window)
        if self._window and self._context.oldest(slot) > needed:
            return 0
        return length if self._context.remove(slot, length) else 0

    def shares(self, slot: int, length: int, held: int) -> bool:
        # A cell that two sequences share is not reused once it has left the window: the pool,
        # only as large as the windows, would run full.
        return not self._window

    def forget(self, slot: int) -> None:
        pass


class Snapshots:
    """A few tokens back, once per batch."""

    def __init__(self, context: Context, slots: int) -> None:
        self._context = context
        self._oldest = [0] * slots  # the shortest length that may have a snapshot
        self._moved = [False] * slots  # went back since the last batch

    def ahead(self, row: Row) -> int:
        return 0

    def mark(self, row: Row, held: int) -> None:
        # Only tokens of the newest batch have snapshots; how many of them, llama.cpp knows.
        self._oldest[row.slot] = held + 1
        self._moved[row.slot] = False

    def back(self, slot: int, length: int) -> int:
        if length < self._oldest[slot] or self._moved[slot]:
            return 0
        self._moved[slot] = True
        return length if self._context.remove(slot, length) else 0

    def shares(self, slot: int, length: int, held: int) -> bool:
        return length == held and not self._moved[slot]

    def forget(self, slot: int) -> None:
        self._moved[slot] = False


class Checkpoints:
    """Back to before the tentative tokens, as often as needed."""

    def __init__(self, context: Context, slots: int) -> None:
        self._context = context
        self._slots = slots
        self._lengths = [0] * slots  # of the checkpoints; 0: there is none

    def ahead(self, row: Row) -> int:
        known = len(row.tokens) - row.tentative
        return known - 1 if row.tentative and known > REPLAY else 0

    def mark(self, row: Row, held: int) -> None:
        begins = len(row.tokens) >= row.tentative > 0  # else the checkpoint is older, and stays
        if begins and held and held != self._lengths[row.slot]:
            self._context.clear(row.slot + self._slots)
            self._context.copy(row.slot, row.slot + self._slots, -1)
            self._lengths[row.slot] = held

    def back(self, slot: int, length: int) -> int:
        if not 0 < self._lengths[slot] <= length:
            return 0
        self._context.clear(slot)
        self._context.copy(slot + self._slots, slot, -1)
        return self._lengths[slot]

    def shares(self, slot: int, length: int, held: int) -> bool:
        return length == held

    def forget(self, slot: int) -> None:
        self._context.clear(slot + self._slots)
        self._lengths[slot] = 0

"""Chunked prefill: how many prompt tokens to read beside replies, learned from measured times."""

from __future__ import annotations

import math

MAX_GAP = 0.5  # seconds between two pieces of a reply while a prompt is read, by default
LEAST = 16  # tokens of a prompt that are read in any case
FIRST = 128  # before anything was measured
MOST = 1 << 16
CLOSE = 1.1  # times the least time of a token: sizes within are good enough
WEIGHT = 0.3  # of a new measurement
STALE = 128  # rounds after which a size is measured anew


class Pace:
    """Chooses the smallest piece whose tokens take about as little time as those of the best.

    Wide batches take less time per token, up to a width that depends on the machine, but replies
    wait for a whole piece: it must fit in the longest gap allowed. Sizes are powers of two.
    """

    def __init__(self, max_gap: float = MAX_GAP) -> None:
        self._max_gap = max_gap
        self._round = 0.0  # seconds without prompts
        self._per_token: dict[int, float] = {}  # seconds that each adds to a round, by size
        self._seen: dict[int, int] = {}  # the round of the latest measurement
        self._rounds = 0

    @property
    def allowance(self) -> int:
        """Return the tokens of prompts that a round with replies may read."""
        if not self._per_token:
            return FIRST
        fit = [size for size in self._per_token if self._fits(size)]
        if not fit:
            return self._fitting()
        best = min(self._per_token[size] for size in fit)
        largest = max(fit)
        if self._per_token[largest] <= best and self._is_new(2 * largest):
            return 2 * largest
        chosen = min(size for size in fit if self._per_token[size] <= CLOSE * best)
        if chosen == largest:
            return self._widest(chosen)
        return chosen // 2 if chosen > FIRST and self._is_new(chosen // 2) else chosen

    def _fits(self, size: int) -> bool:
        return self._round + size * self._taking(size) <= self._max_gap

    def _is_new(self, size: int) -> bool:
        return size <= MOST and size not in self._per_token and self._fits(size)

    def _widest(self, size: int) -> int:
        """Choose the largest piece that fits, if that is less than twice this size."""
        most = int((self._max_gap - self._round) / self._per_token[size]) // LEAST * LEAST
        return max(size, min(most, 2 * size - LEAST)) if 2 * size not in self._per_token else size

    def _fitting(self) -> int:
        """Choose the largest piece that fits by the time of the smallest one measured."""
        size = min(self._per_token)
        while size > LEAST and not self._fits(size):
            size //= 2
        return size

    def _taking(self, size: int) -> float:
        """Seconds per token; for a size that was not measured, those of the nearest one."""
        near = min(self._per_token, key=lambda known: abs(math.log2(known / size)))
        return self._per_token[near]

    def note(self, read: int, seconds: float) -> None:
        """Learn the seconds of a round that read so many tokens of prompts."""
        self._rounds += 1
        if not read:
            self._round = nearer(self._round, seconds)
        elif read >= LEAST:
            size = 1 << round(math.log2(read))
            # At least half of the round: its time without a prompt is known less well.
            added = max(seconds - self._round, seconds / 2)
            self._per_token[size] = nearer(self._per_token.get(size, 0.0), added / read)
            self._seen[size] = self._rounds
            self._forget()

    def _forget(self) -> None:
        for size in [size for size, at in self._seen.items() if self._rounds - at > STALE]:
            del self._seen[size], self._per_token[size]


def nearer(known: float, measured: float) -> float:
    """Move a known time towards a measured one, capped at double: one stall counts little."""
    if not known:
        return measured
    return known + WEIGHT * (min(measured, 2 * known) - known)

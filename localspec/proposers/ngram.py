"""Guess that the text repeats: copy what followed the latest match of its last words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.draft import EMPTY, Draft
from localspec.proposer import Ask
from localspec.tokens import Tokens

_MASK = (1 << 64) - 1
_FACTOR = 0x9E3779B97F4A7C15
BY = "ngram"


class NgramProposer:
    """Longest match first, the most recent wins."""

    def __init__(self, longest: int = 4, shortest: int = 2) -> None:
        self._sizes = tuple(range(longest, shortest - 1, -1))
        self._indexes: dict[int, NgramIndex] = {}

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._look_up(ask) for ask in asks]

    def release(self, slot: int) -> None:
        self._indexes.pop(slot, None)

    def _look_up(self, ask: Ask) -> Draft:
        index = self._indexes.get(ask.slot)
        if index is None or not index.precedes(ask.history):
            index = self._indexes[ask.slot] = NgramIndex(self._sizes)
        index.grow(ask.history)
        start = index.find(ask.history) if ask.limit else None
        if start is None:
            return EMPTY
        # Near the end of the text there is less to copy than wanted: a loop goes on looping.
        return Draft(np.resize(ask.history[start:], ask.limit), by=BY)


class NgramIndex:
    """Where every run of a few tokens last ended, kept up to date as the text grows."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._ends: dict[int, dict[int, int]] = {size: {} for size in sizes}
        self._known = 0  # the runs that end within history[:known] are indexed
        self._last = -1  # the last of those tokens

    def precedes(self, history: Tokens) -> bool:
        """Whether the text may be a longer version of the one indexed."""
        return self._known < len(history) and (
            self._known == 0 or self._last == history[self._known - 1]
        )

    def grow(self, history: Tokens) -> None:
        """Index all runs that end before the newest token, so that something follows each."""
        known = max(len(history) - 1, 0)
        for size, ends in self._ends.items():
            first = max(self._known - size + 1, 0)
            keys = run_keys(history[first:known], size)
            ends.update(zip(keys, range(first + size, known + 1), strict=True))
        self._known = known
        self._last = int(history[known - 1]) if known else -1

    def find(self, history: Tokens) -> int | None:
        """The position after the latest earlier occurrence of the longest run at the end."""
        for size, ends in self._ends.items():
            if len(history) <= size:
                continue
            run = history[-size:]
            end = ends.get(run_keys(run, size)[0])
            if end is not None and (history[end - size : end] == run).all():
                return end
        return None


def run_keys(tokens: Tokens, size: int) -> list[int]:
    """A 64-bit key for every run of `size` tokens."""
    if len(tokens) < size:
        return []
    if len(tokens) <= 2 * size:  # a token at a time: numpy would cost more than it saves
        return _few_keys(tokens.tolist(), size)
    keys = np.zeros(len(tokens) - size + 1, np.uint64)
    for at in range(size):
        keys = (keys + tokens[at : at + len(keys)].astype(np.uint64) + 1) * np.uint64(_FACTOR)
    return keys.tolist()


def _few_keys(tokens: Sequence[int], size: int) -> list[int]:
    keys = []
    for start in range(len(tokens) - size + 1):
        key = 0
        for token in tokens[start : start + size]:
            key = ((key + token + 1) * _FACTOR) & _MASK
        keys.append(key)
    return keys

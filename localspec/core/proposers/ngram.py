"""Prompt lookup by n-grams: drafts what followed the latest match of the last tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.base.tokens import Tokens
from localspec.core.pairing.pair import Pair
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask

BY = "ngram"


class NgramProposer:
    """Longest match first, the most recent wins.

    Runs of two would find more (1.33 tokens a round against 1.26 over twenty prompts of mixed
    kinds, at depth 4), and be wrong more often (45% accepted against 62%): on a CPU that costs
    more than it brings.
    """

    def __init__(self, longest: int = 4, shortest: int = 3) -> None:
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
        match = index.latest_match(ask.history) if ask.limit else None
        if match is None:
            return EMPTY
        start, size = match
        tokens = ask.history[start : start + ask.limit]
        if len(tokens) < ask.limit:  # near the end of the text: a loop goes on looping
            tokens = np.resize(tokens, ask.limit)
        confidences = tuple(confidence(size + at) for at in range(ask.limit))
        return Draft(tokens, by=BY, confidences=confidences)


class NgramIndex:
    """The last end of every run of a few tokens, kept up to date as the text grows."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._longest = max(sizes)
        self._ends: list[tuple[int, dict[tuple[int, ...], int]]] = [(s, {}) for s in sizes]
        self._indexed = 0  # the runs that end within so many tokens are indexed
        self._last = -1  # the last of those tokens

    def precedes(self, history: Tokens) -> bool:
        """Whether the text may be a longer version of the one indexed."""
        return self._indexed < len(history) and (
            self._indexed == 0 or self._last == history[self._indexed - 1]
        )

    def grow(self, history: Tokens) -> None:
        """Index all runs that end before the newest token, so that something follows each."""
        end = max(len(history) - 1, 0)
        base = max(self._indexed - self._longest, 0)
        fresh = history[base:end].tolist()
        for size, ends in self._ends:
            for run_end in range(max(self._indexed + 1, size), end + 1):
                ends[tuple(fresh[run_end - size - base : run_end - base])] = run_end
        self._indexed = end
        self._last = fresh[-1] if fresh else -1

    def latest_match(self, history: Tokens) -> tuple[int, int] | None:
        """Find the latest earlier occurrence of the longest run at the end; its end and size."""
        newest = tuple(history[-self._longest :].tolist())
        for size, ends in self._ends:
            end = ends.get(newest[-size:]) if size < len(history) else None
            if end is not None:
                return end, size
        return None


def confidence(size: int) -> float:
    """Estimate the chance that a run goes on as before.

    Measured: one token 0.29, two 0.49, three 0.61.
    """
    return 1 - 1.5 / (size + 1)


def make(pair: Pair) -> NgramProposer:  # noqa: ARG001
    return NgramProposer()

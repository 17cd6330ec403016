"""Penalties on tokens that a sequence has already."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import NONE, Logits, Tokens
from localspec.core.sampling.parameters import Sampling

Ints = NDArray[np.int64]
Items = TypeVar("Items", list[int], Tokens)


class TokenCounts:
    """Counts of each token in a text that grows."""

    def __init__(self, others: Tokens) -> None:
        """Begin with tokens that are not counted: those of the prompt."""
        ids = np.unique(others).astype(np.int64)
        self._at = {token: at for at, token in enumerate(ids.tolist())}
        self._ids = np.concatenate((ids, np.empty(64, np.int64)))
        self._counts = np.zeros(len(self._ids), np.int64)

    @property
    def ids(self) -> Ints:
        return self._ids[: len(self._at)]

    @property
    def counts(self) -> Ints:
        return self._counts[: len(self._at)]

    def add(self, token: int) -> None:
        at = self._at.setdefault(token, len(self._at))
        if at == len(self._ids):
            self._ids = np.resize(self._ids, 2 * at)
            self._counts = np.concatenate((self._counts, np.zeros(at, np.int64)))
        self._ids[at] = token
        self._counts[at] += 1

    def after(self, drafted: Sequence[int]) -> tuple[Ints, Ints]:
        """Return tokens and their counts with `drafted` after the text."""
        added = Counter(drafted)
        fresh = [token for token in added if token not in self._at]
        ids = np.concatenate((self.ids, np.array(fresh, np.int64)))
        counts = np.concatenate((self.counts, np.array([added[t] for t in fresh], np.int64)))
        for token in added.keys() & self._at.keys():
            counts[self._at[token]] += added[token]
        return ids, counts


class Penalties:
    """The penalties of one sequence, by the tokens of its prompt and reply so far."""

    def __init__(self, sampling: Sampling, prompt: Tokens) -> None:
        self._sampling = sampling
        self._window = sampling.penalty_window
        self._last = deque[int](maxlen=max(self._window, 0))  # of the reply, within the window
        reads = sampling.repetition != 1
        self._prompt = prompt[-self._window :] if reads and self._window > 0 else NONE
        self._all = TokenCounts(prompt if reads and self._window < 0 else NONE)

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the reply."""
        if self._window < 0:
            for token in tokens:
                self._all.add(token)
        else:
            self._last.extend(tokens)

    def seen(self, drafted: Sequence[int], more: int = 0) -> tuple[Ints, Ints]:
        """Return the tokens that stand before the next one, and their counts in the reply.

        There may be `more` after `drafted` which nobody knows yet: they take room in the window.
        """
        if self._window < 0:
            return self._all.after(drafted)
        window = max(self._window - more, 0)
        reply = last([*self._last, *drafted], window)
        ids, counts = np.unique(np.array(reply, np.int64), return_counts=True)
        others = np.setdiff1d(last(self._prompt, window - len(reply)), ids)
        uncounted = np.zeros(len(others), np.int64)
        return np.concatenate((ids, others)), np.concatenate((counts, uncounted))

    def apply(self, logits: Logits, drafted: Sequence[int]) -> None:
        """Penalise, in place, the tokens that stand before the next one, `drafted` the last."""
        (ids, counts), sampling = self.seen(drafted), self._sampling
        if (by := sampling.repetition) != 1:
            old = logits[ids]
            logits[ids] = np.where(old > 0, old / by, old * by)
        penalty = sampling.presence * (counts > 0) + sampling.frequency * counts
        logits[ids] -= penalty.astype(np.float32)


def last(items: Items, count: int) -> Items:
    return items[max(len(items) - count, 0) :]

"""The arrays that cross every seam, and the growing history of one text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError

Tokens = NDArray[np.int32]
Logits = NDArray[np.float32]
Vectors = NDArray[np.float32]  # a row for each text
States = NDArray[np.float32]  # a row for each token, inside a model


class LogitRows(Protocol):
    """Logits [outputs, vocabulary]: an array, or rows that are copied as they are asked for."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Logits]: ...

    def __getitem__(self, at: int, /) -> Logits: ...


@runtime_checkable
class RankedLogits(Protocol):
    """Rows of which the likeliest tokens are known before they are copied."""

    def best(self, at: int) -> int:
        """Return the most likely token of a row, the first of several."""


def best(logits: Logits) -> int:
    """Return the most likely token."""
    token = int(logits.argmax())
    if not math.isfinite(logits.item(token)):
        raise BackendError(f"the model returned {logits[token]} for token {token}")
    return token


NONE: Tokens = np.empty(0, np.int32)


def tokens_of(values: Sequence[int]) -> Tokens:
    return np.array(values, np.int32)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """Count the leading tokens that two texts share."""
    size = min(len(a), len(b))
    if a.base is not None and a.base is b.base and a.ctypes.data == b.ctypes.data:
        return size  # views of one history
    differ = a[:size] != b[:size]
    first = int(differ.argmax()) if size else 0
    return first if size and differ[first] else size


class History:
    """Tokens that only grow; a `view` never changes.

    `size` is its length, for code that asks many times a round: len() calls Python.
    """

    __slots__ = ("_buffer", "size")

    def __init__(self, tokens: Tokens, spare: int = 256) -> None:
        self.size = len(tokens)
        self._buffer = np.empty(self.size + spare, np.int32)
        self._buffer[: self.size] = tokens

    def __len__(self) -> int:
        return self.size

    @property
    def view(self) -> Tokens:
        return self._buffer[: self.size]

    def append(self, token: int) -> None:
        if self.size == len(self._buffer):
            self.extend((token,))
            return
        self._buffer[self.size] = token
        self.size += 1

    def extend(self, tokens: Sequence[int]) -> None:
        end = self.size + len(tokens)
        if end > len(self._buffer):
            grown = np.empty(2 * end, np.int32)
            grown[: self.size] = self._buffer[: self.size]
            self._buffer = grown
        self._buffer[self.size : end] = tokens
        self.size = end

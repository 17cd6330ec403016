"""The arrays that cross every seam, and the growing history of one text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
Logits = NDArray[np.float32]

NONE: Tokens = np.empty(0, np.int32)


def tokens_of(values: Sequence[int]) -> Tokens:
    return np.array(values, np.int32)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """How many leading tokens two texts share."""
    size = min(len(a), len(b))
    differ = a[:size] != b[:size]
    first = int(differ.argmax()) if size else 0
    return first if size and differ[first] else size


class History:
    """Tokens that only ever grow; `view` is valid and unchanging for as long as it is kept."""

    __slots__ = ("_buffer", "_size")

    def __init__(self, tokens: Tokens, room: int = 256) -> None:
        self._size = len(tokens)
        self._buffer = np.empty(self._size + room, np.int32)
        self._buffer[: self._size] = tokens

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> Tokens:
        return self._buffer[: self._size]

    def extend(self, tokens: Sequence[int]) -> None:
        end = self._size + len(tokens)
        if end > len(self._buffer):
            grown = np.empty(2 * end, np.int32)
            grown[: self._size] = self._buffer[: self._size]
            self._buffer = grown
        self._buffer[self._size : end] = tokens
        self._size = end

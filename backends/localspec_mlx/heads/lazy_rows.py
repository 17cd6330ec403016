"""The states that a head has not read yet, in arrays that MLX computes when it reads them."""

from __future__ import annotations

import mlx.core as mx


class LazyRows:
    """Rows of a target's states, for `TextProgress`."""

    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array: mx.array | None = None  # if there are any

    def append(self, states: mx.array, start: int) -> None:
        rows = [] if self.array is None else [self.array]
        if start < 0:
            rows.append(mx.zeros_like(states[:1]))
        self.array = mx.concatenate([*rows, states[max(start, 0) :]])

    def first(self, count: int) -> mx.array:
        return mx.zeros((0, 0)) if self.array is None else self.array[:count]

    def drop(self, count: int) -> None:
        self.array = None if self.array is None else self.array[count:]

    def keep(self, count: int) -> None:
        self.array = None if self.array is None else self.array[:count]

    def copied(self) -> LazyRows:
        twin = LazyRows()
        twin.array = self.array
        return twin

"""The caches that the layers of mlx-lm's models read and write, a row for each slot.

Their methods are those that mlx-lm's model definitions call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from localspec_mlx.array_form import Arrays
from localspec_mlx.call import IDLE, RowSpans

STEP = 256  # cells by which room for keys and values grows

Memo = Any  # arrays, which never change: to keep one costs nothing but memory


class Layer(Protocol):
    """The cache of one layer, or of a part of one, for rows that run together."""

    def face(self) -> object:
        """The object that the model's definition is given."""

    def begin(self, call: RowSpans, rows: Sequence[int] = ()) -> None:
        """Prepare for a run; of these `rows` without the others, where any are given."""

    def arrays(self) -> Iterator[mx.array]: ...

    def row(self, at: int, length: int) -> Self:
        """Copy one row, which holds `length` tokens, for itself."""

    def join(self, others: Sequence[Self]) -> Self:
        """Join this row and others as one layer."""

    def content(self, at: int, length: int, reached: int) -> Arrays:
        """Return what a row holds of `length` tokens, to `fill` a fresh layer with elsewhere.

        `reached` tokens were ever written to the row.
        """

    def fill(self, content: Arrays, length: int) -> int:
        """Become the row that gave this content; return how many tokens were ever written."""

    def mark(self) -> Memo:
        """Return what `put_back` needs to return here; None if a length is enough."""

    def put_back(self, at: int, memo: Memo, row: int) -> None:
        """Return a row to where a row was when it was marked."""


class Keys:
    """The keys and values of all tokens, or of a window; quantised if `bits` are given."""

    def __init__(self, window: int = 0, most: int = 0, packing: Packing | None = None) -> None:
        self.window = window
        self.most = most  # cells, where there is a window
        self.cells = 0
        self.parts: list[mx.array] = []
        self.packing = packing
        self.offset: int | mx.array = 0
        self.view = IDLE.view(0, window)
        self.rows: Sequence[int] = ()  # that run without others; none: all do
        if packing:  # mlx-lm attends to quantised keys where it finds these
            self.bits, self.group_size = packing.bits, packing.group_size

    def face(self) -> object:
        return self

    def begin(self, call: RowSpans, rows: Sequence[int] = ()) -> None:
        needed = -(-call.end // STEP) * STEP
        cells = max(self.cells, min(needed, self.most) if self.most else needed)
        if cells > self.cells:
            self.cells, self.parts = cells, [grown(part, cells) for part in self.parts]
        self.offset, self.view, self.rows = call.offset, call.view(cells, self.window), rows

    def make_mask(
        self, width: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        return self.view.mask(window_size, return_array)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        new = self.packing.pack(keys, values) if self.packing else (keys, values)
        if not self.parts:
            self.parts = [grown(part[..., :0, :], self.cells) for part in new]
        if self.rows:
            readable = [self._readable(*pair) for pair in zip(self.parts, new, strict=True)]
        elif self.view.straight:
            for part, added in zip(self.parts, new, strict=True):
                part[self.view.write] = added
            readable = [part[self.view.read] for part in self.parts]
        else:
            readable = self.parts = [
                mx.put_along_axis(part, self.view.index, added, axis=2)
                for part, added in zip(self.parts, new, strict=True)
            ]
        if not self.packing:
            return readable[0], readable[1]
        return tuple(readable[: len(readable) // 2]), tuple(readable[len(readable) // 2 :])

    def _readable(self, part: mx.array, added: mx.array) -> mx.array:
        """Write into the rows that run, where they lie; return what they attend to."""
        if places := self.view.places:
            for at, row, cells in zip(self.rows, added, places, strict=True):
                part[at, :, cells] = row
        else:
            written = mx.put_along_axis(picked(part, self.rows), self.view.index, added, axis=2)
            replace_rows(part, self.rows, written)
        rows = picked(part, self.rows)
        return rows[self.view.read] if self.view.straight else rows

    def arrays(self) -> Iterator[mx.array]:
        yield from self.parts

    def row(self, at: int, length: int) -> Keys:
        cells = min(-(-length // STEP) * STEP, self.cells)
        return self._of(cells, [taken(part[..., :cells, :], at) for part in self.parts])

    def join(self, others: Sequence[Keys]) -> Keys:
        rows = [self, *others]
        cells = max(row.cells for row in rows)
        empty = next(([part[:1, :, :0] for part in row.parts] for row in rows if row.parts), [])
        whole = [[grown(part, cells) for part in row.parts or empty] for row in rows]
        return self._of(cells, [mx.concatenate(list(parts)) for parts in zip(*whole, strict=True)])

    def _of(self, cells: int, parts: list[mx.array]) -> Keys:
        made = Keys(self.window, self.most, self.packing)
        made.cells, made.parts = cells, parts
        return made

    def content(self, at: int, length: int, reached: int) -> Arrays:
        first = max(reached - self.most, 0) if self.most else 0  # older ones are overwritten
        places = mx.arange(first, length) % self.cells
        return [mx.take(part[at : at + 1], places, axis=2) for part in self.parts]

    def fill(self, content: Arrays, length: int) -> int:
        cells = -(-length // STEP) * STEP
        self.cells = cells = min(cells, self.most) if self.most else cells
        first = 0
        for part in content:
            assert part is not None
            part = part[:, :, -cells:]
            first = length - part.shape[2]
            filled = grown(part[:, :, :0], cells)
            filled[:, :, mx.arange(first, length) % cells] = part
            self.parts.append(filled)
        return first + self.most if first else length

    def mark(self) -> Memo:
        return None

    def put_back(self, at: int, memo: Memo, row: int) -> None:
        pass


class Packing:
    """Keys and values in 8 or 4 bits, a scale and a bias for each group of numbers."""

    def __init__(self, bits: int, group_size: int = 64) -> None:
        self.bits = bits
        self.group_size = group_size

    def pack(self, keys: mx.array, values: mx.array) -> list[mx.array]:
        return [
            part
            for array in (keys, values)
            for part in mx.quantize(array, group_size=self.group_size, bits=self.bits)
        ]

    def unpack(self, parts: Sequence[mx.array]) -> list[mx.array]:
        """Return what was packed, but for what was rounded off."""
        size, bits = self.group_size, self.bits
        return [
            mx.dequantize(numbers, scales, biases, group_size=size, bits=bits)
            for numbers, scales, biases in (parts[:3], parts[3:])
        ]


class States:
    """The states of a recurrent layer, which sum up all tokens so far."""

    left_padding = None

    def __init__(self, size: int) -> None:
        self.held: list[mx.array | None] = [None] * size
        self.lengths: mx.array | None = None
        self.rows: Sequence[int] = ()  # that run without others; none: all do

    def __getitem__(self, at: int) -> mx.array | None:
        held = self.held[at]
        return picked(held, self.rows) if held is not None and self.rows else held

    def __setitem__(self, at: int, value: mx.array) -> None:
        held = self.held[at]
        if held is not None and self.rows:
            held = mx.array(held)  # the old one may be marked
            replace_rows(held, self.rows, value)
            value = held
        self.held[at] = value

    def face(self) -> object:
        return self

    def begin(self, call: RowSpans, rows: Sequence[int] = ()) -> None:
        self.lengths, self.rows = call.lengths, rows

    def make_mask(self, width: int) -> mx.array | None:
        """Mark the real tokens: padding must not enter a state."""
        return None if self.lengths is None else mx.arange(width) < self.lengths[:, None]

    def advance(self, width: int) -> None:
        """Do nothing: lengths are set anew for each run."""

    def arrays(self) -> Iterator[mx.array]:
        yield from (array for array in self.held if array is not None)

    def row(self, at: int, length: int) -> States:
        return self._of([None if array is None else taken(array, at) for array in self.held])

    def join(self, others: Sequence[States]) -> States:
        rows = zip(*(row.held for row in (self, *others)), strict=True)
        return self._of([joined(row) for row in rows])

    def _of(self, held: list[mx.array | None]) -> States:
        made = States(0)
        made.held = held
        return made

    def content(self, at: int, length: int, reached: int) -> Arrays:
        return self.row(at, length).held

    def fill(self, content: Arrays, length: int) -> int:
        self.held = content
        return length

    def mark(self) -> Memo:
        return list(self.held)

    def put_back(self, at: int, memo: Memo, row: int) -> None:
        for index, (now, old) in enumerate(zip(self.held, memo, strict=True)):
            if now is None or len(now) == 1:
                self.held[index] = taken(old, row)
            else:
                now[at : at + 1] = old[row : row + 1]


class Foreign:
    """A cache of mlx-lm's own, of a kind that has no counterpart here; one row only."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def face(self) -> object:
        return self._cache

    def begin(self, call: RowSpans, rows: Sequence[int] = ()) -> None:
        pass

    def arrays(self) -> Iterator[mx.array]:
        yield from arrays_in(self._cache.state)

    def row(self, at: int, length: int) -> Foreign:
        return Foreign(type(self._cache).from_state(self.mark()))

    def join(self, others: Sequence[Foreign]) -> Foreign:
        raise NotImplementedError("rows of such caches never run together")

    def content(self, at: int, length: int, reached: int) -> Arrays:
        raise NotImplementedError("such caches are not saved")

    def fill(self, content: Arrays, length: int) -> int:
        raise NotImplementedError("such caches are not saved")

    def mark(self) -> Memo:
        return apart(self._cache.state)

    def put_back(self, at: int, memo: Memo, row: int) -> None:
        self._cache = type(self._cache).from_state(apart(memo))


def arrays_in(tree: object) -> Iterator[mx.array]:
    leaves: Any = tree_flatten(tree)
    yield from (leaf for _, leaf in leaves if isinstance(leaf, mx.array))


def apart(state: Memo) -> Memo:
    """Copy lists, with the same arrays: mlx-lm writes into those it has."""
    return tree_map(lambda leaf: mx.array(leaf) if isinstance(leaf, mx.array) else leaf, state)


def grown(part: mx.array, cells: int) -> mx.array:
    """Make room for more tokens."""
    missing = cells - part.shape[2]
    if missing <= 0:
        return part
    padding = mx.zeros((*part.shape[:2], missing, *part.shape[3:]), part.dtype)
    return mx.concatenate([part, padding], axis=2)


def picked(part: mx.array, rows: Sequence[int]) -> mx.array:
    """Return some rows: of neighbours nothing is copied."""
    first, end = rows[0], rows[-1] + 1
    if [*rows] == [*range(first, end)]:
        return part[first:end]
    return mx.take(part, mx.array([*rows]), axis=0)


def replace_rows(part: mx.array, rows: Sequence[int], written: mx.array) -> None:
    """Replace some rows of a part, in place."""
    for at, row in zip(rows, written, strict=True):
        part[at] = row


def taken(part: mx.array, at: int) -> mx.array:
    """Copy one row, which lets go of the memory of the others."""
    return part[...] if len(part) == 1 else mx.take(part, mx.array([at]), axis=0)


def joined(rows: Sequence[mx.array | None]) -> mx.array | None:
    """Join rows as one; a state that has not begun is all zeros."""
    begun = next((row for row in rows if row is not None), None)
    if begun is None:
        return None
    return mx.concatenate([mx.zeros_like(begun) if row is None else row for row in rows])

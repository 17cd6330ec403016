"""One run of a model over rows that differ in what they hold and in their new tokens.

Shorter rows are padded on the right. What padding wrote is overwritten before anything can attend
to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import mlx.core as mx

# The layers in which the new tokens of a row see each other, whatever their order.
BothWays = Literal["nowhere", "windows", "everywhere"]


@dataclass(frozen=True)
class RowSpans:
    starts: tuple[int, ...]  # tokens each row holds, or some more
    widths: tuple[int, ...]  # tokens each row brings
    fewer: mx.array | None = None  # tokens fewer, a number that only the device knows
    both_ways: BothWays = "nowhere"

    @cached_property
    def width(self) -> int:
        return max(self.widths)

    @cached_property
    def end(self) -> int:
        """The end of the furthest row, padding included."""
        return max(self.starts) + self.width

    @cached_property
    def begins(self) -> mx.array:
        """The position at which each row goes on."""
        starts = mx.array(self.starts)
        return starts if self.fewer is None else starts - self.fewer

    @cached_property
    def offset(self) -> int | mx.array:
        alone = len(self.starts) == 1 and self.fewer is None
        return self.starts[0] if alone else self.begins

    @cached_property
    def lengths(self) -> mx.array | None:
        """The rows' own widths, where there is padding."""
        return mx.array(self.widths) if min(self.widths) < self.width else None

    @cached_property
    def queries(self) -> mx.array:
        """The position of each new token: [rows, width, 1]."""
        return (self.begins[:, None] + mx.arange(self.width))[..., None]

    @cached_property
    def _views(self) -> dict[tuple[int, int], CellView]:
        return {}

    def view(self, cells: int, window: int) -> CellView:
        """Return the view that layers with this many cells and this window share."""
        view = self._views.get((cells, window))
        if view is None:
            view = self._views[cells, window] = CellView(self, cells, window)
        return view


IDLE = RowSpans((0,), (0,))


def device_counts(counts: Sequence[mx.array | None]) -> mx.array | None:
    """Join counts of rows that only the device knows; None counts for 0, or for all of them."""
    if all(count is None for count in counts):
        return None
    return mx.stack([mx.array(0) if count is None else count for count in counts])


class CellView:
    """The cells that new tokens go to in a layer, and those they attend to.

    Position p lives in cell p modulo the number of cells. A layer that keeps every token has a
    cell for each; one with a window has some more than the window, and forgets what has left it.
    """

    def __init__(self, call: RowSpans, cells: int, window: int) -> None:
        self._call = call
        self._cells = cells
        self._window = window
        start = call.starts[0]
        self._oldest = max(0, start + 1 - window) if window else 0  # that is attended to
        self._seen = start + call.width - self._oldest
        first, low = (at % cells if cells else 0 for at in (start, self._oldest))
        self.write = (..., slice(first, first + call.width), slice(None))
        self.read = (..., slice(low, low + self._seen), slice(None))
        # One row whose cells follow each other: nothing has to be looked up or masked out.
        alone = len(call.starts) == 1 and call.fewer is None
        self.straight = alone and max(first + call.width, low + self._seen) <= cells

    @cached_property
    def places(self) -> list[slice] | None:
        """List the cells of each row's new tokens; None where some do not follow each other."""
        starts = [start % self._cells for start in self._call.starts]
        if self._call.fewer is not None or max(starts) + self._call.width > self._cells:
            return None
        return [slice(start, start + self._call.width) for start in starts]

    @cached_property
    def index(self) -> mx.array:
        """The cell of each new token: [rows, 1, width, 1]."""
        return (self._call.queries % self._cells)[:, None]

    def mask(self, window: int | None, as_array: bool) -> mx.array | str | None:
        """Make attention's mask; by default tokens see the layer's window, or everything."""
        window = window or self._window
        both_ways = self._call.both_ways in ("everywhere", "windows" if window else "everywhere")
        plain = self.straight and not as_array and not both_ways
        if plain and (not window or self._seen <= window):
            return None if self._call.width == 1 else "causal"
        positions, queries = self._positions, self._call.queries
        mask = (positions <= (queries[:, -1:] if both_ways else queries)) & (positions >= 0)
        if window:
            mask = mask & (positions > queries - window)
        return mask[:, None]

    def block_mask(self, widths: mx.array, window: int, causal: bool) -> mx.array:
        """Make a mask by which the last tokens of each row see each other."""
        positions, queries = self._positions, self._call.queries
        ends = self._call.begins[:, None] + widths
        mask = (positions <= (queries if causal else ends[..., None] - 1)) & (positions >= 0)
        if window:
            mask = mask & (positions > queries - window)
        return mask[:, None]

    @cached_property
    def _positions(self) -> mx.array:
        """Compute the position that each read cell holds: [rows, 1, cells]; negative: none yet."""
        if self.straight:
            return mx.arange(self._oldest, self._oldest + self._seen)[None, None]
        newest = self._call.queries[:, -1:]
        return newest - (newest - mx.arange(self._cells)) % self._cells

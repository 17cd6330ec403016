"""The logits that a run gives. Those of long drafts stay on the device until they are asked for.

512 rows of 152,000 logits take 312 MB in 32 bits, and most are never looked at: a greedy text needs
the likeliest tokens alone, a sampled one the rows up to the first rejection.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from localspec.base.tokens import LogitRows, Logits, best
from localspec.interfaces.backend import Row
from localspec_mlx.devices import failure
from localspec_mlx.host import Host
from localspec_mlx.runner import WIDE, joined

BLOCK = 16  # rows that are copied at once: to wait for each alone would take longer


class DeviceLogits:
    """Logits [outputs, vocabulary] in the numbers that the model computes."""

    def __init__(self, logits: mx.array, host: Host, stream: mx.ThreadLocalStream) -> None:
        self.logits = logits
        self._ranks = (mx.argmax(logits, axis=-1), mx.max(logits, axis=-1).astype(mx.float32))
        self._tokens, self._highest = list[int](), list[float]()
        self._host, self._stream = host, stream
        self._start, self._block = 0, np.empty((0, 0), np.float32)

    def arrays(self) -> list[mx.array]:
        return [self.logits, *self._ranks]

    def __len__(self) -> int:
        return len(self.logits)

    def __iter__(self) -> Iterator[Logits]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> Logits:
        at = range(len(self))[at]
        if not 0 <= at - self._start < len(self._block):
            self._start, self._block = at, self._copied(at)
        row: Logits = self._block[at - self._start]
        return row

    def _copied(self, start: int) -> Logits:
        try:
            with mx.stream(self._stream):
                rows: Logits = self._host.read(
                    self.logits[start : start + BLOCK].astype(mx.float32)
                )
        except Exception as error:  # as MLX reports whatever goes wrong
            raise failure("MLX could not copy logits", error) from error
        return rows

    def finish(self) -> None:
        """Wait until all is computed: what goes wrong is to go wrong within the forward."""
        self._tokens, self._highest = (self._host.read(rank).tolist() for rank in self._ranks)

    def best(self, at: int) -> int:
        return self._tokens[at] if math.isfinite(self._highest[at]) else best(self[at])


class Outputs(NamedTuple):
    """The logits of some rows."""

    rows: Sequence[Row]
    joined: mx.array  # of all but those of long drafts, in 32 bits
    long: Mapping[int, DeviceLogits]  # those, by slot

    def arrays(self) -> list[mx.array]:
        """List the arrays to evaluate."""
        return [self.joined, *(array for logits in self.long.values() for array in logits.arrays())]

    def by_row(self) -> list[mx.array]:
        """List the logits of each row, in 32 bits, for the device."""
        return [
            self.long[slot].logits.astype(mx.float32) if slot in self.long else self.joined[place]
            for slot, place in self._places()
        ]

    def read(self, host: Host) -> list[LogitRows]:
        """Copy those that do not stay on the device, and wait for all."""
        for logits in self.long.values():
            logits.finish()
        copied = host.read(self.joined)
        return [self.long.get(slot, copied[place]) for slot, place in self._places()]

    def _places(self) -> Iterator[tuple[int, slice]]:
        counts = (0 if row.slot in self.long else row.outputs for row in self.rows)
        ends = pairwise(accumulate(counts, initial=0))
        return ((row.slot, slice(*pair)) for row, pair in zip(self.rows, ends, strict=True))


def outputs_of(
    rows: Sequence[Row], logits: Sequence[mx.array], host: Host, stream: mx.ThreadLocalStream
) -> Outputs:
    """Arrange the logits of rows, not yet evaluated."""
    pairs = list(zip(rows, logits, strict=True))
    long = {row.slot: DeviceLogits(each, host, stream) for row, each in pairs if is_long(row)}
    short = [each for row, each in pairs if not is_long(row)]
    return Outputs(rows, joined(short or [logits[0][:0]]), long)


def is_long(row: Row) -> bool:
    return row.outputs > WIDE

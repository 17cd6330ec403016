"""A group of processes, mostly on several machines, that run one model together.

The first leads: it runs all of LocalSpec, and tells the others each call of the model. They do
the same on their share of the weights; within a forward mlx-lm's definitions exchange what they
need. Messages are numbers through the group itself, so there is no other connection to guard.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from enum import IntEnum
from pathlib import Path
from typing import Literal

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module

from localspec.base.errors import BackendError, UsageError
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options, Row

Division = Literal["heads", "layers"]
WIDTH = 256  # numbers of a message that come at once; a longer one follows in full


class Call(IntEnum):
    END = 0
    LOAD = 1
    FORWARD = 2
    TRUNCATE = 3
    COPY = 4
    CLOSE = 5


class Group:
    """The group as one of its members sees it."""

    def __init__(self, group: mx.distributed.Group) -> None:
        self._group = group
        self.rank, self.size = group.rank(), group.size()
        self.leads = self.rank == 0
        self.lost = False  # whether what the others hold is no longer known here

    def tell(self, call: Call, numbers: Sequence[int] = ()) -> None:
        """Send a call to all other members."""
        if self.lost:
            raise gone()
        message = [int(call), len(numbers), *numbers]
        self._sum([*message[:WIDTH], *[0] * (WIDTH - len(message))])
        if len(message) > WIDTH:
            self._sum(numbers)

    def hear(self) -> tuple[Call, list[int]]:
        """Wait for what the leader tells."""
        call, count, *numbers = self._sum([0] * WIDTH)
        if count > len(numbers):
            numbers = self._sum([0] * count)
        return Call(call), numbers[:count]

    def _sum(self, numbers: Sequence[int]) -> list[int]:
        """Add up what all say; but for the leader they say nothing."""
        try:
            array = mx.array(np.array(numbers, np.int32))
            total = np.array(mx.distributed.all_sum(array, group=self._group))
        except RuntimeError as error:
            self.lost = True
            raise gone() from error
        return [int(number) for number in total]

    def leave(self) -> None:
        """Take no further part."""
        self.lost = True

    def divide(self, model: Module, kv_heads: int) -> Division:
        """Keep the own share of a model: by heads if they can be divided, else by layers."""
        by_layers = hasattr(model, "model") and hasattr(model.model, "pipeline")
        if hasattr(model, "shard") and kv_heads % self.size == 0:
            model.shard(self._group)
            return "heads"
        if by_layers:
            model.model.pipeline(self._group)
            return "layers"
        if hasattr(model, "shard"):
            raise UsageError(f"{kv_heads} heads of keys cannot be divided among {self.size}")
        raise UsageError("mlx-lm cannot divide a model of this kind among machines")


def gone() -> BackendError:
    return BackendError("another machine of the group was lost: start the group again")


def packed(rows: Sequence[Row]) -> list[int]:
    """Write rows as numbers."""
    numbers: list[int] = []
    for row in rows:
        numbers += [row.slot, row.outputs, row.tentative, len(row.tokens), *row.tokens.tolist()]
    return numbers


def unpacked(numbers: Sequence[int]) -> list[Row]:
    """Read what `packed` wrote."""
    rows, at = [], 0
    while at < len(numbers):
        slot, outputs, tentative, count = numbers[at : at + 4]
        at += 4 + count
        rows.append(Row(slot, tokens_of(numbers[at - count : at]), outputs, tentative))
    return rows


def load_request(path: Path, options: Options) -> list[int]:
    """Write what is to be loaded as numbers."""
    text = json.dumps([os.fspath(path), asdict(options)], default=os.fspath)
    return list(text.encode())


def read_request(numbers: Sequence[int]) -> tuple[Path, Options]:
    """Read what `load_request` wrote."""
    path, fields = json.loads(bytes(numbers))
    return Path(path), Options.from_json(fields)

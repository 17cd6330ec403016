"""A head that keeps keys and values of its own, of every token it has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import mlx.core as mx

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.heads.reader import BOUNDLESS, Part, Read
from localspec_mlx.slots import CacheSlots


class Layers(Protocol):
    """The layers of a head."""

    def __call__(
        self, tokens: mx.array, states: mx.array, caches: Sequence[object]
    ) -> tuple[mx.array, mx.array]:
        """Read tokens [rows, width] and states before them; return own states, and outputs."""

    def logits(self, outputs: mx.array) -> mx.array: ...


class OwnKeys:
    def __init__(self, layers: Layers, blueprint: Blueprint, count: int) -> None:
        self.slots = CacheSlots(blueprint, count)
        self.limit = BOUNDLESS
        self.logits = layers.logits
        self._layers = layers
        self._blueprint = blueprint

    def take_in(self, parts: Mapping[int, Part]) -> None:
        if parts:
            self.read(parts)  # MLX is lazy: of what nobody asks for, only the keys are computed

    def read(self, parts: Mapping[int, Part]) -> Read:
        if self._blueprint.sharing != "ragged" and len(parts) > 1:
            return apart(self.read, parts)
        widths = [len(part.tokens) for part in parts.values()]
        tokens = padded([part.tokens for part in parts.values()])
        before = padded([part.states for part in parts.values()])
        states, outputs = self.slots.compute(
            list(parts),
            widths,
            lambda layers: self._layers(tokens, before, self._blueprint.caches(layers)),
        )
        ends = mx.array([part.newest for part in parts.values()])[:, None, None]
        return Read(*(mx.take_along_axis(e, ends, axis=1)[:, 0] for e in (states, outputs)))


def apart(read: Callable[[Mapping[int, Part]], Read], parts: Mapping[int, Part]) -> Read:
    """Read texts in runs of their own."""
    runs = [read({slot: part}) for slot, part in parts.items()]
    return Read(*(mx.concatenate(list(column)) for column in zip(*runs, strict=True)))


def padded(rows: Sequence[mx.array]) -> mx.array:
    """Stack rows [width, ...], the shorter ones filled up on the right."""
    width = max(len(row) for row in rows)
    full = [(0, 0)] * (rows[0].ndim - 1)
    return mx.stack([mx.pad(row, [(0, width - len(row)), *full]) for row in rows])

"""Slots of heads that keep nothing of a text: they only count its tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.base import Module

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.heads.head import BOUNDLESS, Part, Read
from localspec_mlx.slots import CacheSlots, SlotGroup

Outcomes = Mapping[int, tuple[mx.array, mx.array]]  # states and outputs of one text, by slot


def counting(count: int) -> CacheSlots:
    """Make `count` slots, without layers."""
    nothing = Module()  # type: ignore[no-untyped-call]
    return CacheSlots(Blueprint(nothing, list, (), frozenset(), recurrent=False, own=True), count)


def count_in(slots: CacheSlots, parts: Mapping[int, Part]) -> None:
    for slot, part in parts.items():
        slots.compute([slot], [len(part.tokens)], lambda layers: None)


def together(outcomes: Outcomes, parts: Mapping[int, Part]) -> Read:
    """Arrange what was found as the texts were asked for."""
    return Read(*(mx.stack(list(column)) for column in zip(*map(outcomes.get, parts), strict=True)))


class GroupedReader(ABC):
    """Reads texts in a run for each group of slots that their target keeps together."""

    def __init__(self, target: CacheSlots, count: int) -> None:
        self.slots = counting(count)
        self.limit = BOUNDLESS
        self._target = target

    def take_in(self, parts: Mapping[int, Part]) -> None:
        count_in(self.slots, parts)

    def read(self, parts: Mapping[int, Part]) -> Read:
        self.take_in(parts)
        outcomes: dict[int, tuple[mx.array, mx.array]] = {}
        for group in self._target.groups(list(parts)):
            outcomes |= self._read_group(group, parts)
        return together(outcomes, parts)

    @abstractmethod
    def _read_group(self, group: SlotGroup, parts: Mapping[int, Part]) -> Outcomes:
        """Read those texts that are in a group."""

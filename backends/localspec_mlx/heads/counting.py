"""Slots of heads that keep nothing of a text: they only count its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx
from mlx.nn.layers.base import Module

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.heads.reader import BOUNDLESS, Part, Read
from localspec_mlx.slots import CacheSlots, SlotGroup

Outcomes = Mapping[int, tuple[mx.array, mx.array]]  # states and outputs of one text, by slot
Rows = tuple[mx.array, mx.array]  # the same of the rows of a group: [rows, 1, ...]
# Reads the texts of a group; slots count the tokens of each.
ReadGroup = Callable[[SlotGroup, Mapping[int, Part], CacheSlots], Rows]
ComputeLogits = Callable[[mx.array], mx.array]


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


class GroupedReader:
    """Reads texts in a run for each group of slots that their target keeps together."""

    def __init__(
        self, target: CacheSlots, count: int, read_group: ReadGroup, logits: ComputeLogits
    ) -> None:
        self.slots = counting(count)
        self.limit = BOUNDLESS
        self.logits = logits
        self._target, self._read_group = target, read_group

    def take_in(self, parts: Mapping[int, Part]) -> None:
        count_in(self.slots, parts)

    def read(self, parts: Mapping[int, Part]) -> Read:
        self.take_in(parts)
        outcomes: dict[int, tuple[mx.array, mx.array]] = {}
        for group in self._target.groups(list(parts)):
            states, outputs = self._read_group(group, parts, self.slots)
            rows = [(at, slot) for at, slot in enumerate(group.slots) if slot in parts]
            outcomes |= {slot: (states[at, -1], outputs[at, -1]) for at, slot in rows}
        return together(outcomes, parts)

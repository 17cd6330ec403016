"""Slots of heads that keep nothing of a text: they only count its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx
from mlx.nn.layers.base import Module

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.heads.head import Part, Read
from localspec_mlx.slots import CacheSlots, SlotGroup

Found = Mapping[int, tuple[mx.array, mx.array]]  # states and outputs of one text, by slot


def counting(count: int) -> CacheSlots:
    """Make so many slots, without layers."""
    nothing = Module()  # type: ignore[no-untyped-call]
    return CacheSlots(Blueprint(nothing, list, (), frozenset(), recurrent=False, own=True), count)


def count_in(slots: CacheSlots, parts: Mapping[int, Part]) -> None:
    for slot, part in parts.items():
        slots.compute([slot], [len(part.tokens)], lambda layers: None)


def together(found: Found, parts: Mapping[int, Part]) -> Read:
    """Arrange what was found as the texts were asked for."""
    return Read(*(mx.stack(list(each)) for each in zip(*map(found.get, parts), strict=True)))


def by_groups(
    target: CacheSlots,
    parts: Mapping[int, Part],
    read: Callable[[SlotGroup, Mapping[int, Part]], Found],
) -> Read:
    """Read texts in a run for each group of slots that their target keeps together."""
    found: dict[int, tuple[mx.array, mx.array]] = {}
    for group in target.groups(list(parts)):
        found |= read(group, parts)
    return together(found, parts)

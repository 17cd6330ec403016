"""LayerSkip: the first layers of a target draft for it, with its own keys and values.

They write the keys and values of a draft after the target's, which are not counted there. The
target writes the same cells anew when it verifies the draft.

    held by the target    x0 x1 ... x(n-1) |
    written by a draft                     | xn d1 d2 ...
    verified                               | xn d1 d2 ...
"""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_unflatten

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.call import RowSpans
from localspec_mlx.heads.counting import GroupedReader, Rows
from localspec_mlx.heads.reader import Part
from localspec_mlx.slots import CacheSlots, SlotGroup


def first_layers(layers: Blueprint, target: CacheSlots, count: int) -> GroupedReader:
    """Draft with the first layers of a target."""

    def read(group: SlotGroup, parts: Mapping[int, Part], slots: CacheSlots) -> Rows:
        """Run all rows of a group; those that draft nothing write after what they hold."""
        ends = zip(group.slots, target.ends(group), strict=True)
        # Of the tokens of a text the first is not counted, and the newest is.
        starts = [slots.length(slot) if slot in parts else end for slot, end in ends]
        some = next(parts[slot] for slot in group.slots if slot in parts)
        tokens = mx.stack([parts.get(slot, some).tokens[-1:] for slot in group.slots])
        spans = RowSpans(tuple(starts), (1,) * len(starts))
        logits = target.compute_at(group, spans, lambda caches: layers.run(tokens, caches))
        return mx.zeros((len(starts), 1, 0)), logits

    return GroupedReader(target, count, read, lambda outputs: outputs)


def lend(target: Module, model: Module) -> None:
    """Give a model of some layers of a target the arrays of the target that are alike."""
    lent = arrays(target)
    same = [
        (name, lent[name])
        for name, array in arrays(model).items()
        if name in lent and alike(lent[name], array)
    ]
    model.update(tree_unflatten(same))


def alike(one: mx.array, other: mx.array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def arrays(model: Module) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))  # type: ignore[no-untyped-call]

"""The caches of every slot, and the groups of slots that run together.

The slots of a group share arrays, a row each, for as long as the same slots run; the others are
rows for themselves and cost nothing meanwhile. Attention takes tokens back by forgetting a length.
A recurrent layer returns to a mark: the arrays it had then, which cost nothing but memory to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import mlx.core as mx

from localspec_mlx.array_form import Arrays
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.call import BothWays, RowSpans, device_counts
from localspec_mlx.layers import Layer, Memo

Result = TypeVar("Result")
ANCHORS = 2  # marks kept where long readings ended, for another text that begins alike


@dataclass(frozen=True, slots=True)
class SlotGroup:
    slots: tuple[int, ...]
    layers: list[Layer]


@dataclass(frozen=True, slots=True)
class Mark:
    length: int
    row: int
    memos: list[Memo]


@dataclass(slots=True)
class Slot:
    length: int = 0
    reached: int = 0  # tokens ever written, padding and those taken back included
    group: SlotGroup | None = None
    marks: list[Mark] = field(default_factory=list)
    anchors: list[Mark] = field(default_factory=list)
    fewer: mx.array | None = None  # tokens by which it is shorter, which only the device knows
    overwritten: bool = False  # its last token, by a draft


class CacheSlots:
    def __init__(self, blueprint: Blueprint, count: int) -> None:
        self._blueprint = blueprint
        self._slots = [Slot() for _ in range(count)]
        self._moved: list[mx.array] = []
        self.layers = len(blueprint.fresh())

    @property
    def signature(self) -> str:
        return self._blueprint.signature

    def length(self, slot: int) -> int:
        return self._slots[slot].length

    def run(
        self,
        slots: Sequence[int],
        tokens: mx.array,
        widths: Sequence[int],
        beside: Collection[int] = (),
    ) -> mx.array:
        """Append tokens [rows, width]; return the logits of all, not yet evaluated.

        Slots that run in turns with those `beside` them stay in one group.
        """

        def by(layers: Sequence[Layer]) -> mx.array:
            return self._blueprint.run(tokens, layers)

        return self.compute(slots, widths, by, beside)

    def read_picture(self, slot: int, embeddings: mx.array, both_ways: BothWays) -> mx.array:
        """Append positions of a picture; return the logits of all, not yet evaluated."""
        held, group = self._slots[slot], self._gather((slot,))
        spans = RowSpans((held.length,), (len(embeddings),), both_ways=both_ways)
        logits = self.compute_at(group, spans, partial(self._blueprint.run_embeddings, embeddings))
        held.length += len(embeddings)
        return logits

    def compute(
        self,
        slots: Sequence[int],
        widths: Sequence[int],
        by: Callable[[Sequence[Layer]], Result],
        beside: Collection[int] = (),
    ) -> Result:
        """Append tokens to slots, `widths` to each, by a computation over their layers."""
        part = self._part(slots, beside)
        group = self._slots[slots[0]].group if part else None
        group = group or self._gather(tuple(slots))
        rows = [self._slots[slot] for slot in slots]
        fewer = device_counts([row.fewer for row in rows])
        spans = RowSpans(tuple(row.length for row in rows), tuple(widths), fewer)
        result = self.compute_at(group, spans, by, part)
        for row, width in zip(rows, widths, strict=True):
            row.length += width
        return result

    def compute_at(
        self,
        group: SlotGroup,
        spans: RowSpans,
        by: Callable[[Sequence[Layer]], Result],
        part: Sequence[int] = (),
    ) -> Result:
        """Compute over the layers of a group, from places at which its rows need not end.

        part: rows that run without the others; none: all do
        """
        for layer in group.layers:
            layer.begin(spans, part)
        result = by(group.layers)
        slots = [group.slots[at] for at in part] or group.slots
        for slot, start in zip(slots, spans.starts, strict=True):
            held = self._slots[slot]
            if held.group is group:
                held.reached = max(held.reached, start + spans.width)
                held.overwritten |= start < held.length
        return result

    def ends(self, group: SlotGroup) -> list[int]:
        """List where the rows of a group end; 0 of one that its slot has left."""
        held = [self._slots[slot] for slot in group.slots]
        return [slot.length if slot.group is group else 0 for slot in held]

    def overwritten(self, slot: int) -> bool:
        """Whether a draft was written over the last token of a slot, which was fed ahead."""
        return self._slots[slot].overwritten

    def groups(self, slots: Sequence[int]) -> list[SlotGroup]:
        """List the groups that slots are in."""
        groups = (self._slots[slot].group for slot in slots)
        return list({id(group): group for group in groups if group}.values())

    def arrays(self, slots: Sequence[int]) -> Iterator[mx.array]:
        """List the arrays to evaluate after a run or a move, which else keep the past alive."""
        yield from self._moved
        self._moved.clear()
        for group in self.groups(slots):
            for layer in group.layers:
                yield from layer.arrays()

    def mark(self, slots: Sequence[int], *, more: bool = False) -> None:
        """Let `truncate` return here; the last marks are dropped unless there are to be more."""
        if not self._blueprint.recurrent:
            return
        for slot in slots:
            held = self._slots[slot]
            if held.group:
                held.marks = [*(held.marks if more else ()), self._mark(slot, held.group)]

    def anchor(self, slot: int) -> None:
        """Set a mark that stays until there are newer ones."""
        held = self._slots[slot]
        if self._blueprint.recurrent and held.group:
            held.anchors = [*held.anchors, self._mark(slot, held.group)][-ANCHORS:]

    def _mark(self, slot: int, group: SlotGroup) -> Mark:
        memos = [layer.mark() for layer in group.layers]
        return Mark(self._slots[slot].length, group.slots.index(slot), memos)

    def shorten(self, slot: int, by: mx.array) -> None:
        """Forget as many tokens as only the device knows, until `truncate` reports the length."""
        self._slots[slot].fewer = by

    def truncate(self, slot: int, length: int) -> int:
        """Forget all but the first `length` tokens, or more where that cannot be done."""
        held = self._slots[slot]
        held.fewer, held.overwritten = None, False
        if length >= held.length:
            return held.length
        mark = self._last_mark(held, length)
        if self._blueprint.recurrent:
            length = mark.length if mark else 0
        if length <= 0 or held.group is None or not self._intact(held, length):
            self.clear(slot)
            return 0
        if mark:
            put_back(held.group.layers, held.group.slots.index(slot), mark)
        held.length = length
        held.marks = [mark for mark in held.marks if mark.length <= length]
        held.anchors = [mark for mark in held.anchors if mark.length <= length]
        return length

    def clear(self, slot: int) -> None:
        self._slots[slot] = Slot()

    def copy(self, source: int, target: int, length: int) -> int:
        """Give `target` the first `length` tokens of `source`; 0 where that cannot be done."""
        self.clear(target)
        held, mark = self._slots[source], None
        if held.group is None or length <= 0 or not self._intact(held, length):
            return 0
        if self._blueprint.recurrent and length != held.length:
            mark = self._last_mark(held, length)
            if mark is None or mark.length != length:
                return 0
        layers = self._row(source, length)
        if mark:
            put_back(layers, 0, mark)
        self._slots[target] = Slot(length, held.reached, self._alone(target, layers))
        return length

    def content(self, slot: int, length: int) -> list[Arrays] | None:
        """Return what layers hold of the first tokens of a slot; None where that cannot be done."""
        held = self._slots[slot]
        if held.group is None or not self._blueprint.own or not self._intact(held, length):
            return None
        if self._blueprint.recurrent and length != held.length:
            return None
        at = held.group.slots.index(slot)
        return [layer.content(at, length, held.reached) for layer in held.group.layers]

    def fill(self, slot: int, content: Sequence[Arrays], length: int) -> None:
        """Let a slot hold what another one did."""
        layers = self._blueprint.fresh()
        reached = [layer.fill(part, length) for layer, part in zip(layers, content, strict=True)]
        self._slots[slot] = Slot(length, max([length, *reached]), self._alone(slot, layers))
        self.anchor(slot)

    def serves_as_a_whole(self, slot: int) -> bool:
        """Whether what a slot holds is of no use to a text that begins with a part of it alone."""
        return self._blueprint.recurrent or not self._intact(self._slots[slot], 1)

    def _last_mark(self, held: Slot, length: int) -> Mark | None:
        fit = [mark for mark in (*held.anchors, *held.marks) if mark.length <= length]
        return max(fit, key=lambda mark: mark.length, default=None)

    def _intact(self, held: Slot, length: int) -> bool:
        """Return whether all that the token at `length` attends to is still there."""
        return all(
            held.reached <= most or length + 1 - window >= held.reached - most
            for window, most in self._blueprint.windows
        )

    def _part(self, slots: Sequence[int], beside: Collection[int]) -> list[int]:
        """Return the rows of slots in a group whose other slots are beside them; else none."""
        group = self._slots[slots[0]].group
        if group is None or len(group.slots) == len(slots) or not {*group.slots} <= {*beside}:
            return []
        if any(self._slots[slot].group is not group for slot in (*slots, *group.slots)):
            return []
        return [group.slots.index(slot) for slot in slots]

    def _gather(self, slots: tuple[int, ...]) -> SlotGroup:
        first = self._slots[slots[0]].group
        if first and first.slots == slots and all(self._slots[s].group is first for s in slots):
            return first
        old = [self._slots[slot].group for slot in slots]
        rows = [self._row(slot, self._slots[slot].length) for slot in slots]
        layers = rows[0]
        if len(rows) > 1:
            layers = [row[0].join(row[1:]) for row in zip(*rows, strict=True)]
        group = self._alone(slots[0], layers) if len(slots) == 1 else SlotGroup(slots, layers)
        for slot in slots:
            self._slots[slot].group = group
        self._disband(old)
        return group

    def _row(self, slot: int, length: int) -> list[Layer]:
        group = self._slots[slot].group
        if group is None:
            return self._blueprint.fresh()
        at = group.slots.index(slot)
        return [layer.row(at, length) for layer in group.layers]

    def _alone(self, slot: int, layers: list[Layer]) -> SlotGroup:
        self._moved.extend(array for layer in layers for array in layer.arrays())
        return SlotGroup((slot,), layers)

    def _disband(self, groups: Sequence[SlotGroup | None]) -> None:
        """Let those left behind in a group go on as rows for themselves."""
        for group in groups:
            for slot in group.slots if group else ():
                held = self._slots[slot]
                if held.group is group:
                    held.group = self._alone(slot, self._row(slot, held.length))


def put_back(layers: Sequence[Layer], at: int, mark: Mark) -> None:
    for layer, memo in zip(layers, mark.memos, strict=True):
        layer.put_back(at, memo, mark.row)

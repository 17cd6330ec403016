"""Choose the slot that already holds most of a text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from localspec.base.tokens import Tokens
from localspec.interfaces.backend import Model


@dataclass(frozen=True, slots=True)
class SlotChoice:
    """The slot for a text, and the slot that holds the longest beginning of it."""

    slot: int
    own: int  # tokens of the text that the slot holds itself
    source: int
    shared: int  # tokens of the text that the source holds


def choose(held: Sequence[Tokens], free: Collection[int], shared: Sequence[int]) -> SlotChoice:
    """Choose a slot for a text that shares so many tokens with what each slot holds.

    Slots are given up in the order of `free`.
    A free slot is continued if the text begins with most of what it holds; otherwise the beginning
    is copied, so that one long conversation is not lost to another that starts alike.
    """
    best = max(range(len(held)), key=lambda slot: (shared[slot], slot in free))
    if best in free and 2 * shared[best] >= len(held[best]):
        return SlotChoice(best, shared[best], best, shared[best])
    slot = min(free, key=lambda slot: len(held[slot]) > 0)
    return SlotChoice(slot, shared[slot], best, shared[best])


def settle(model: Model, choice: SlotChoice) -> int:
    """Make the slot hold the shared beginning, or less; return how much it holds."""
    if choice.shared > choice.own:
        copied = model.copy(choice.source, choice.slot, choice.shared)
        if copied:
            return copied
    return model.truncate(choice.slot, choice.own)

"""Start a text where an old one left off: which slot already holds how much of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from localspec.backend import Model
from localspec.keeping import Keeping
from localspec.tokens import Tokens, common_prefix

LEAST = 512  # tokens of a text that is worth keeping
GAIN = 256  # tokens that must be at stake before a disk is asked


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text should go, and the slot that holds the longest beginning of it."""

    slot: int
    own: int  # how much of the text the slot holds itself
    source: int
    shared: int


def choose(held: Sequence[Tokens], free: Collection[int], tokens: Tokens) -> Place:
    """The slot for a text; `free` is in the order in which slots should be given up.

    A free slot is continued if most of what it holds is wanted; otherwise the beginning is
    copied, so that one long conversation is not lost to another that starts alike.
    """
    shared = [common_prefix(each, tokens) for each in held]
    best = max(range(len(held)), key=lambda slot: (shared[slot], slot in free))
    if best in free and 2 * shared[best] >= len(held[best]):
        return Place(best, shared[best], best, shared[best])
    slot = min(free, key=lambda slot: len(held[slot]) > 0)
    return Place(slot, shared[slot], best, shared[best])


def settle(model: Model, place: Place) -> int:
    """Make the slot hold the shared beginning, or less; return how much it holds."""
    if place.shared > place.own:
        copied = model.copy(place.source, place.slot, place.shared)
        if copied:
            return copied
    return model.truncate(place.slot, place.own)


def recall(model: Model, keeping: Keeping, place: Place, tokens: Tokens) -> int:
    """Fill the slot from the disk if that has much more of the text; return how much it holds.

    Where it returns 0 the slot may be empty.
    """
    kept = keeping.find(tokens) if len(tokens) >= place.shared + GAIN else None
    if kept is None or kept.serves(tokens) < place.shared + GAIN:
        return 0
    data = keeping.read(kept)
    if data is None or not model.restore(place.slot, data, len(kept.tokens)):
        return 0
    return model.truncate(place.slot, kept.serves(tokens))


def keep(model: Model, keeping: Keeping, slot: int, held: Tokens) -> None:
    """Put what a slot holds on disk, if it is long and not there."""
    if len(held) >= LEAST and keeping.wants(held):
        saved = model.save(slot, keeping.room)
        if saved:
            keeping.keep(held, saved)

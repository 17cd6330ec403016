"""Prompts that begin alike and come together: one is read, the others go on from its slot."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.base.tokens import common_prefix
from localspec.core.decoding.generation import Generation
from localspec.core.decoding.scheduler import left_to_read
from localspec.core.prefix_cache.slots import Slots
from localspec.interfaces.backend import Model

MIN_SHARED = 256  # tokens that a prompt saves by waiting; the other may take a forward more for it


class SharedPrompts:
    """Lets a prompt wait while one before it in turn reads what both begin with.

    The one that is read stops where they part, so that recurrent models can copy it, too. Who waits
    is decided anew for each round, by what texts hold: a prompt waits for none that is not read in
    that round, and goes on by itself once that has ended, however it did.
    """

    def __init__(self, model: Model, slots: Slots) -> None:
        self._model, self._slots = model, slots
        self._copies = True  # until the engine could not

    def to_read(
        self, prompts: Sequence[Generation], active: Sequence[Generation]
    ) -> list[Generation]:
        """Return the prompts that do not wait; those that waited until now go on from a slot."""
        reading: list[Generation] = []
        for g in sorted(prompts, key=left_to_read):
            g.edge, awaited = 0, g.awaits
            g.awaits = self._is_read_by_another(g, reading)
            if g.awaits:
                continue
            if awaited and self._copies:
                self._copy_beginning(g, active)
            reading.append(g)
        return reading

    def _is_read_by_another(self, g: Generation, reading: Sequence[Generation]) -> bool:
        """Whether one of these reads on for this prompt; its turn ends where they part."""
        for other in reading if g.shares and self._copies else ():
            if edge := parting_ahead(g, other):
                other.edge = min(other.edge or edge, edge)
                return True
        return False

    def _copy_beginning(self, g: Generation, active: Sequence[Generation]) -> None:
        """Copy the longest beginning of a prompt that a slot holds, to its own slot."""
        held = {other.slot: other.shared_with(g) for other in active}
        length, slot = self._slots.longest_beginning(g.tokens[:-1], held, g.adapters)
        if length <= g.cached:
            return
        copied = self._model.copy(slot, g.slot, length)
        self._copies = copied > 0
        g.reused = max(g.reused + copied - g.cached, 0)
        g.cached = copied


def parting_ahead(g: Generation, other: Generation) -> int:
    """Return where a prompt parts from another that is yet to read much of it; else 0."""
    least = max(g.cached + MIN_SHARED, other.cached + 1)
    ours, theirs = g.tokens[:-1], other.tokens[:-1]
    if other.cached < g.cached or other.scores or min(len(ours), len(theirs)) < least:
        return 0
    if ours[least - 1] != theirs[least - 1]:  # soon seen of texts that have little in common
        return 0
    shared = common_prefix(ours, theirs)
    return shared if shared >= least else 0

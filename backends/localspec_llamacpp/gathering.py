"""Bring the slots of a batch together: llama.cpp runs those at once that are neighbours.

Of slots with a cache each, it runs those at once that are neighbours and come in order, the others
in turn. So idle ones between get a token that is taken back: 7 rows with a gap took 41 ms, 8 took
31. Where gaps are wide, texts are moved once they were apart for a while: often a request fills the
gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.order import are_neighbours, exchanges

WIDE = 4  # rows: gaps with more than one idle slot for this many are wide
PATIENCE = 3  # batches with a gap between slots before texts are moved, which takes about as long


class Gathering:
    """Finds the idle slots to run with a batch, and moves texts to others where gaps are wide."""

    def __init__(
        self, context: Context, lengths: Sequence[int], exchange: Callable[[int, int], None]
    ) -> None:
        """Look at the lengths of the slots, which are those of now; `exchange` moves two texts."""
        self._memory, self._batch = context.memory, context.shape.batch
        self._cells = context.shape.cells // context.shape.sequences
        self._lengths, self._exchange = lengths, exchange
        self._gaps = 0  # recent batches whose slots were apart

    def gather(self, widths: Mapping[int, int], *, fills: bool) -> Sequence[int]:
        """Bring slots together if they are apart; return idle ones to run with them.

        `widths` are the tokens that slots get; gaps stay open where no idle slot `fills` them.
        """
        if len(widths) < 2:
            return ()
        ids = self._memory.ids
        fillers = self._fillers(widths) if fills else []
        near = are_neighbours([ids[slot] for slot in (*widths, *fillers)])
        if near and WIDE * len(fillers) <= len(widths):
            self._gaps = 0
            return fillers
        self._gaps += 1
        if self._gaps <= PATIENCE:
            return fillers
        sizes = [self._memory.size(slot) for slot in range(len(self._lengths))]
        for slot, gap in exchanges(list(widths), ids, sizes):
            self._exchange(slot, gap)
        return self._fillers(widths) if fills else []

    def _fillers(self, widths: Mapping[int, int]) -> list[int]:
        """Return idle slots between those that get one token, unless they hold more than these."""
        singles = [slot for slot, width in widths.items() if width == 1]
        if len(singles) < 2:
            return []
        ids, lengths = self._memory.ids, self._lengths
        places = [ids[slot] for slot in singles]
        between = range(min(places) + 1, max(places))
        fillers = [
            slot
            for slot, length in enumerate(lengths)
            if slot not in widths
            and ids[slot] in between
            and length < self._cells
            and self._memory.places.edge(slot, length) == length  # not within a picture
        ]
        fits = sum(widths.values()) + len(fillers) <= self._batch
        cheap = sum(lengths[slot] for slot in fillers) <= sum(lengths[slot] for slot in singles)
        return fillers if fits and cheap else []

"""A GGUF model behind the core's seam: slots, ragged batches and truncation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import LogitRows, Logits
from localspec.interfaces.abilities import Choose, usual_scales
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Head, Options, Roll, Row, Saved
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import check, roll_by_forward
from localspec.interfaces.media import Sight
from localspec.interfaces.mixed_rows import forward_in_parts, is_mixed
from localspec_llamacpp import openmp
from localspec_llamacpp.bindings import products
from localspec_llamacpp.bindings.batch import ANY, Part
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.gathering import Gathering
from localspec_llamacpp.head import LlamaHead, joined, parted
from localspec_llamacpp.order import batches
from localspec_llamacpp.shortlist import shortlist
from localspec_llamacpp.tokenizer import GgufTokenizer
from localspec_llamacpp.undo import AttentionUndo, CheckpointUndo, SnapshotUndo, Undo

if TYPE_CHECKING:
    from localspec_llamacpp.sight import LlamaSight

UNLOCKED = (
    "--mlock: the system did not let all weights be locked, so that they may leave memory; raise "
    "its limit (ulimit -l)"
)


@dataclass(frozen=True, slots=True)
class ModelParts:
    """Hold what belongs to a model besides its weights and their context."""

    tokenizer: GgufTokenizer
    stack: ExitStack  # that frees all
    head: LlamaHead | None = None
    sight: LlamaSight | None = None


class LlamaModel:
    def __init__(
        self, weights: ModelWeights, context: Context, options: Options, parts: ModelParts
    ) -> None:
        self.tokenizer: Tokenizer = parts.tokenizer
        self.head: Head | None = parts.head
        self.sight: Sight | None = parts.sight
        self._head = parts.head
        self._saves_parts = parts.head is not None  # a head adds its own to what is saved
        self._sight, self._stack = parts.sight, parts.stack
        self.vocabulary = weights.vocabulary
        self.slots = options.slots
        shape = context.shape
        self.context = shape.cells // (1 if shape.pooled else options.slots)
        self.pool = shape.cells
        self.batch, self.tentative = options.batch, options.tentative
        self._weights = weights
        self._context, self._memory = context, context.memory
        self._undo = undo_for(weights, context, options.slots)
        self._whole = weights.recurrent or weights.window > 0  # what is held cannot be cut short
        self._lengths = [0] * options.slots
        apart = not shape.pooled and not self._whole  # so that it matters who is beside whom
        self._gathering = Gathering(context, self._lengths, self._exchange) if apart else None
        self._closed = False
        self._notices = [UNLOCKED] if options.mlock and LOG.unlocked else []
        self.adapters = options.adapters
        self.adapt(usual_scales(options.adapters))

    @property
    def weights(self) -> ModelWeights:
        """Return the weights, for another context of them."""
        return self._weights

    def adapt(self, scales: Scales) -> None:
        self._context.adapt(self._weights.adapters, scales)

    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        if self._closed:
            raise BackendError("this model was closed; load it again")
        check(self, rows, [self._lengths[row.slot] for row in rows])
        if self._sight is not None and any(map(is_mixed, rows)):
            look = partial(self._look, sight=self._sight)
            return forward_in_parts(rows, self.batch, self.forward, look)
        fillers = self._gather({row.slot: len(row.tokens) for row in rows})
        held = [self._lengths[slot] for slot in fillers]
        every, ids = [*rows, *(Row(slot, ANY) for slot in fillers)], self._memory.ids
        try:
            logits = self._forward(sorted(every, key=lambda row: ids[row.slot]))
        except BackendError:
            for row in rows:
                self._repair(row.slot)
            raise
        finally:
            self._take_back(fillers, held)
        return [logits[row.slot] for row in rows]

    def _look(self, row: Row, sight: LlamaSight) -> Logits:
        """Read a picture, or as much of it as the row has."""
        run, count = sight.run(int(row.tokens[0])), len(row.tokens)
        assert not run.whole or count == run.name.length
        offset = run.first - int(row.tokens[0])
        hidden = sight.embeddings(run)[offset : offset + count]
        part = Part(row.slot, self._lengths[row.slot], row.tokens, row.outputs, hidden)
        try:
            look = partial(self._context.look, part, run.piece, offset)
            return self._decode([row], look).copy()
        except BackendError:
            self._repair(row.slot)
            raise

    def _gather(self, widths: Mapping[int, int]) -> Sequence[int]:
        """Bring slots together; return idle ones that are to be run with them."""
        if self._gathering is None:
            return ()
        return self._gathering.gather(widths, fills=self._head is None)

    def _take_back(self, slots: Sequence[int], held: Sequence[int]) -> None:
        for slot, length in zip(slots, held, strict=True):
            self._lengths[slot] = length
            self._repair(slot)

    def _exchange(self, slot: int, gap: int) -> None:
        try:
            self._memory.exchange(slot, gap)
        except BackendError:  # what either held is lost
            self._clear(slot)
            self._clear(gap)
            raise

    def _forward(self, rows: Sequence[Row]) -> dict[int, Logits]:
        ahead = [self._undo.ahead(row) for row in rows]
        if any(ahead):
            firsts = zip(rows, ahead, strict=True)
            self._decode([Row(r.slot, r.tokens[:n], outputs=0) for r, n in firsts if n])
            rows = [
                Row(r.slot, r.tokens[n:], r.outputs, r.tentative)
                for r, n in zip(rows, ahead, strict=True)
            ]
        if len(rows) == 1:
            return {rows[0].slot: self._decode(rows)}
        logits_of: dict[int, Logits] = {}
        for batch in batches(rows, self._context.shape, self._memory.ids):
            # The engine has one place for logits, so those of an earlier batch are copied.
            logits_of = {slot: logits.copy() for slot, logits in logits_of.items()}
            logits, end = self._decode(batch), 0
            for row in batch:
                start, end = end, end + row.outputs
                logits_of[row.slot] = logits[start:end]
        return logits_of

    def _decode(self, rows: Sequence[Row], look: Callable[[], Logits] | None = None) -> Logits:
        """Append rows in one batch: tokens, or part of a picture."""
        self._undo.mark(rows, self._lengths)
        logits = (
            look()
            if look
            else self._context.decode(
                [Part(row.slot, self._lengths[row.slot], row.tokens, row.outputs) for row in rows]
            )
        )
        if self._head:
            positions = [self._lengths[row.slot] for row in rows]
            states = self._context.states(sum(len(row.tokens) for row in rows))
            self._head.note(rows, positions, states)
        for row in rows:
            self._lengths[row.slot] += len(row.tokens)
        return logits

    def multi_step(self, slots: Sequence[int], tokens: Sequence[int], choose: Choose) -> None:
        fillers = self._gather(dict.fromkeys(slots, 1))
        ids, lengths, mark = self._memory.ids, self._lengths, self._undo.mark
        every, count = [*slots, *fillers], len(slots)
        order = sorted(range(len(every)), key=lambda at: ids[every[at]])
        back = [order.index(at) for at in range(count)]
        rows = [Row(slot, ANY) for slot in slots]
        in_turn = order == list(range(count))

        def in_order(named: Sequence[int]) -> Sequence[int]:
            return [named[at] if at < count else 0 for at in order]

        def chosen(logits: Sequence[Logits]) -> Sequence[int] | None:
            mark(rows, lengths)
            for slot in slots:
                lengths[slot] += 1
            if in_turn:
                return choose(logits)
            newest = choose([logits[at] for at in back])
            return newest and in_order(newest)

        held = [lengths[slot] for slot in every]
        places = [(every[at], held[at]) for at in order]
        steps = self.context - max(held)
        try:
            if self._context.multi_step(places, in_order(tokens), chosen, steps):
                check(self, rows, [lengths[row.slot] for row in rows])
        except BackendError:
            for slot in slots:
                self._repair(slot)
            raise
        finally:
            self._take_back(fillers, held[count:])

    def _repair(self, slot: int) -> None:
        """Drop what the slot may have taken in of a batch that failed, and a cut picture."""
        length = self._lengths[slot]
        if self._memory.places.edge(slot, length) < length:
            self._truncate(slot, length)
        elif not self._memory.remove(slot, length):
            self._clear(slot)

    def truncate(self, slot: int, length: int) -> int:
        if length >= self._lengths[slot]:
            return self._lengths[slot]
        return self._truncate(slot, length)

    def _truncate(self, slot: int, length: int) -> int:
        enough = self._head.enough(slot, length) if self._head else length
        enough = self._memory.places.edge(slot, enough)
        kept = self._undo.back(slot, enough) if enough > 0 else 0
        if kept:
            self._lengths[slot] = kept
            if self._head:
                self._head.truncate(slot, length)
        else:
            self._clear(slot)
        return kept

    def _clear(self, slot: int) -> None:
        self._memory.clear(slot)
        self._undo.forget(slot)
        self._lengths[slot] = 0
        if self._head:
            self._head.truncate(slot, 0)

    def copy(self, source: int, target: int, length: int) -> int:
        self._clear(target)
        length = self._memory.places.edge(source, length)
        if length and self._undo.share(source, target, length, self._lengths[source]):
            self._lengths[target] = length
            if self._head:
                self._head.copy(source, target)
                return self._truncate(target, length)
        else:
            self._clear(target)
        return self._lengths[target]

    def save(self, slot: int, most: int) -> Saved | None:
        data = None if self._closed else self._memory.save(slot, most)
        if data is not None and self._head:
            data = self._head.save(slot, data, most)
        elif data is not None and self._saves_parts:
            data = joined(data)
        return None if data is None else Saved(data, self._whole)

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        self._clear(slot)
        if self._head:
            data = self._head.restore(slot, data)
        elif self._saves_parts:
            data = parted(data)[0]
        if self._memory.restore(slot, data, length):
            self._lengths[slot] = length
        else:
            self._clear(slot)
        return self._lengths[slot]

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        takes_back = self._head is None and not self._weights.recurrent
        with products.computing_only(shortlist(self.vocabulary, rolls)):
            return roll_by_forward(self, rolls, steps=self if takes_back else None)

    def free_head(self) -> None:
        if self._head:
            self._head.close()
            self.head = self._head = None
            self._context.tell_nothing()

    def take_notices(self) -> list[str]:
        notices, self._notices = [*self._notices, *self._context.threads.take_notices()], []
        return notices

    def rest(self) -> None:
        openmp.end_threads()

    def close(self) -> None:
        self._closed = True
        self._stack.close()


def undo_for(weights: ModelWeights, context: Context, slots: int) -> Undo:
    if not weights.recurrent:
        return AttentionUndo(context.memory, weights.window)
    if context.snapshots:
        return SnapshotUndo(context.memory, context.snapshots)
    return CheckpointUndo(context.memory, slots)

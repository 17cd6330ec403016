"""A drafting head inside a model (multi-token prediction): it reads the trunk's hidden states.

The head keeps keys and values of its own. At position p it reads token p and the trunk's hidden
state at p - 1, so it can follow the trunk up to the newest token, and goes on from there with
hidden states of its own.

    trunk   x0 x1 ... x(n-1)        h0 h1 ... h(n-1)
    head    (x0, 0) (x1, h0) ... (xn, h(n-1)) -> x(n+1), h'n -> ...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError
from localspec.base.tokens import Logits
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import roll_by_forward
from localspec.interfaces.text_progress import HeadProgress, drafts_of
from localspec_llamacpp.bindings import products
from localspec_llamacpp.bindings.batch import Hidden, Part
from localspec_llamacpp.bindings.context import States
from localspec_llamacpp.blocks import NO_DATA, Blocks, Data, DraftedText
from localspec_llamacpp.buffered_rows import BufferedRows
from localspec_llamacpp.shortlist import shortlist


class LlamaHead:
    """Follows what the trunk holds, slot by slot; the model that owns it keeps both in step."""

    def __init__(
        self,
        blocks: Blocks,
        slots: int,
        batch: int,
        stack: ExitStack | None = None,
        vocabulary: int = 0,
    ) -> None:
        """Follow the texts in `slots` slots; the stack frees what the blocks have."""
        self._vocabulary = vocabulary
        self.proposer = blocks.proposer
        self._blocks, self._memory = blocks, blocks.memory
        self._batch = batch
        self.close = (stack or ExitStack()).close
        self._progress = HeadProgress(
            slots, blocks.shift, blocks.lag, partial(BufferedRows, blocks.width)
        )
        self._texts = self._progress.texts
        self._drafted: dict[int, DraftedText] = {}  # while it rolls, by slot

    def note(self, rows: Sequence[Row], positions: Sequence[int], states: States) -> None:
        """Buffer what the trunk has just read, with its hidden state at every token.

        The head reads it later, or now where too much waits. A row of more than a batch is buffered
        and read in pieces, as buffering copies states.
        """
        end = 0
        for row, position in zip(rows, positions, strict=True):
            start, end = end, end + len(row.tokens)
            if end - start <= self._batch:
                self._append(row, position, states[start:end])
            else:
                self._append_pieces(row, position, start, states)
        self._read_late(rows)

    def _append_pieces(self, row: Row, position: int, start: int, states: States) -> None:
        for at in range(0, len(row.tokens), self._batch):
            tokens = row.tokens[at : at + self._batch]
            piece, end = row._replace(tokens=tokens), at + len(tokens)
            self._append(piece, position + at, states[start + at : start + end])
            if end < len(row.tokens) and not row.tentative:
                self._read_late([piece])

    def _read_late(self, rows: Sequence[Row]) -> None:
        """Let the head read the texts of these rows that are too far behind; the rest waits."""
        kept_back = self._progress.late(rows)
        try:
            self._catch_up(kept_back)
        except BackendError as error:
            self._give_up(kept_back, error)

    def _append(self, row: Row, position: int, hidden: Hidden) -> None:
        text = self._texts[row.slot]
        read = text.read
        text.append(row.tokens, position, hidden)
        if text.read < read:
            self._memory.remove(row.slot, text.read)

    def _catch_up(self, kept_back: Mapping[int, int]) -> None:
        """Read what is unread of these slots, but for the tokens of each that are kept back."""
        for counts in self._progress.portions(kept_back, self._batch):
            self._blocks.read([self._part(slot, count) for slot, count in counts.items()])

    def _part(self, slot: int, count: int) -> Part:
        text = self._texts[slot]
        tokens, states = text.unread(count)
        return Part(slot, text.read, tokens, 0, states)

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        """Draft on from what the trunk holds and the newest token, the only one of each row."""
        able = self._progress.able(rolls, self._blocks.limit)
        slots = [roll.row.slot for roll in able]
        drafts: list[Draft] = []
        try:
            with products.computing_only(shortlist(self._vocabulary, able)):
                drafts = self._roll(able)
        except BackendError as error:
            self._give_up(slots, error)
        finally:
            for slot in self._drafted:  # it read what may never be said, by states of its own
                self._memory.remove(slot, self._texts[slot].read)
            self._drafted.clear()
        return drafts_of(rolls, dict(zip(slots, drafts, strict=False)), self.proposer)

    def _roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        slots = [roll.row.slot for roll in rolls]
        share = self._batch // max(len(slots), 1) - self._blocks.widest
        self._catch_up({slot: 0 for slot in slots if self._texts[slot].behind > share})
        drafts = roll_by_forward(self, rolls, self.proposer)
        if texts := list(self._drafted.values()):
            self._blocks.finish(texts)
        for text in texts:
            self._texts[text.slot].advance(text.settled)
        return drafts

    def behind(self, slot: int) -> int | None:
        return self._progress.behind(slot)

    def catch_up(self, slots: Sequence[int]) -> None:
        try:
            self._catch_up(dict.fromkeys(slots, 0))
        except BackendError as error:
            self._give_up(slots, error)

    def leave(self, slot: int) -> None:
        self._texts[slot].leave()

    def _give_up(self, slots: Iterable[int], error: BackendError) -> None:
        for slot in slots:
            self._memory.clear(slot)
        self._progress.give_up(slots, error)

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        """Read one more token of each row: the newest with all before it, then drafted ones."""
        texts = [self._text(row) for row in rows]
        logits, hidden = self._blocks.step(texts)
        for at, text in enumerate(texts):
            text.steps += 1
            if hidden is not None:
                text.states = np.concatenate((text.states, hidden[at : at + 1]))
        return [logits[at : at + 1] for at in range(len(rows))]

    def _text(self, row: Row) -> DraftedText:
        drafted = self._drafted.get(row.slot)
        if drafted is None:
            text = self._texts[row.slot]
            tokens, states = text.unread()
            drafted = DraftedText(row.slot, text.read, len(tokens), tokens, states)
            self._drafted[row.slot] = drafted
        drafted.tokens = np.concatenate((drafted.tokens, row.tokens))
        return drafted

    def enough(self, slot: int, length: int) -> int:
        return self._texts[slot].enough(length)

    def truncate(self, slot: int, length: int) -> None:
        """Hold no more than `length` tokens; the trunk may hold fewer, and read the rest again."""
        text = self._texts[slot]
        read = text.read
        text.truncate(length)
        if not length:
            self._memory.clear(slot)
        elif text.read < read:
            self._memory.remove(slot, text.read)

    def copy(self, source: int, target: int) -> None:
        """Let a slot hold all that another holds."""
        self.truncate(target, 0)
        copied = not self._texts[source].read or self._memory.copy(source, target, -1)
        self._texts[target] = self._texts[source].copied()
        if not copied:
            self._texts[target].give_up()

    def save(self, slot: int, trunk: Data, most: int) -> Data | None:
        """Add what the head holds of a slot to what the trunk holds, in at most `most` bytes."""
        text = self._texts[slot]
        if not text.follows(len(text.tokens)):
            return joined(trunk)
        own = self._memory.save(slot, most - len(trunk)) if text.read else NO_DATA
        if own is None:
            return joined(trunk)
        _, states = text.unread()
        whole = joined(trunk, own, text.tokens, states)
        return whole if len(whole) <= most else None

    def restore(self, slot: int, data: Data) -> Data:
        """Take what `save` added out of it; return what is the trunk's."""
        trunk, *saved = parted(data)
        text = self._texts[slot]
        if saved:
            own, tokens, rows = saved
            states = rows.view(np.float32).reshape(-1, self._blocks.width)
            text.resume(tokens.view(np.int32).copy(), states, len(states))
            if len(own) and not self._memory.restore(slot, own, text.read):
                text.give_up()
        else:
            text.give_up()
        return trunk


def joined(*parts: NDArray[np.generic]) -> Data:
    """Lay arrays out one after the other; their number and sizes in bytes come first."""
    sizes = np.array([len(parts), *[part.nbytes for part in parts]], np.int64)
    return np.concatenate([part.ravel().view(np.uint8) for part in (sizes, *parts)])


def parted(data: Data) -> list[Data]:
    """Take apart what `joined` laid out."""
    count = int(data[:8].view(np.int64)[0])
    sizes = data[8 : 8 * (1 + count)].view(np.int64)
    ends = 8 * (1 + count) + np.cumsum(sizes)
    return [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]

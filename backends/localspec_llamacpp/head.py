"""A drafting head inside a model (multi-token prediction): it reads the trunk's hidden states.

The head keeps keys and values of its own. At position p it reads token p and the trunk's hidden
state at p - 1, so it can follow the trunk up to the newest token, and goes on from there with
hidden states of its own.

    trunk   x0 x1 ... x(n-1)        h0 h1 ... h(n-1)
    head    (x0, 0) (x1, h0) ... (xn, h(n-1)) -> x(n+1), h'n -> ...
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from localspec.backend import MAX_HEAD_LAG, Roll, Row
from localspec.draft import Draft
from localspec.errors import BackendError
from localspec.roll import roll_by_forward
from localspec.tokens import NONE, Logits, common_prefix
from localspec_llamacpp.bindings.batch import Hidden, Part
from localspec_llamacpp.bindings.context import States
from localspec_llamacpp.blocks import NO_DATA, Blocks, Data, DraftedText
from localspec_llamacpp.held_text import HeldText

LOG = logging.getLogger("localspec")


class LlamaHead:
    """Follows what the trunk holds, slot by slot; the model that owns it keeps both in step."""

    def __init__(
        self, blocks: Blocks, slots: int, batch: int, closing: Callable[[], None] | None = None
    ) -> None:
        """Follow in so many slots; what is to be closed with the blocks may be given."""
        self.proposer = blocks.proposer
        self._blocks, self._shift, self._lag = blocks, blocks.shift, blocks.lag
        self._memory = blocks.memory
        self._nothing = np.zeros((blocks.lag, blocks.width), np.float32)
        self._batch = batch
        self._closing = closing
        self._trails = [self._empty() for _ in range(slots)]
        self._drafted: dict[int, DraftedText] = {}  # while it rolls, by slot

    def _empty(self) -> HeldText:
        return HeldText(self._nothing[self._shift :])

    def _behind(self, slot: int) -> int:
        """Count the entries that could be read."""
        trail = self._trails[slot]
        return 0 if trail.lost else len(trail.tokens) - self._shift - trail.read

    def note(self, rows: Sequence[Row], positions: Sequence[int], states: States) -> None:
        """Take in what the trunk has just read, and its hidden state at every token.

        A prompt is taken in and read in pieces, so that its states are never copied all at once.
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
        """Read where much is unread; what may be taken back is read once that is settled."""
        late = {}
        for row in rows:
            unsettled = len(row.tokens) if row.tentative else 0
            if self._behind(row.slot) - unsettled > MAX_HEAD_LAG:
                late[row.slot] = unsettled
        try:
            self._catch_up(late)
        except BackendError as error:
            self._give_up(late, error)

    def _append(self, row: Row, position: int, hidden: Hidden) -> None:
        """Go on from a position, which may be an earlier one: the trunk reads some tokens twice."""
        trail = self._trails[row.slot]
        if trail.lost:
            return
        known = 0
        if position < len(trail.tokens):
            known = common_prefix(trail.tokens[position:], row.tokens)
            if known < min(len(trail.tokens) - position, len(row.tokens)):
                self.truncate(row.slot, position + known)
        if trail.before is None:
            trail.before = self._state_before(trail.read, position, hidden)
        if known < len(row.tokens):
            trail.append(row.tokens[known:], hidden[known:])

    def _state_before(self, read: int, position: int, hidden: Hidden) -> Hidden | None:
        """Take the state before the next entry, if the trunk reads its token again by now."""
        at = read + self._shift - 1
        if position > at:  # it will not: this is not the text that was told
            return self._nothing
        state = hidden[at - position :][:1]
        return state.copy() if len(state) else None

    def _catch_up(self, kept_back: Mapping[int, int]) -> None:
        """Read what is known of these slots, but for so many tokens of each."""
        while kept_back and (parts := self._portions(kept_back)):
            self._blocks.read(parts)
            for part in parts:
                self._trails[part.sequence].advance(len(part.tokens))
        for slot in kept_back:
            self._trails[slot].forget_states()

    def _portions(self, kept_back: Mapping[int, int]) -> list[Part]:
        share = max(self._batch // max(len(kept_back), 1), 1)
        counts = [(slot, self._behind(slot) - n) for slot, n in kept_back.items()]
        return [self._part(slot, min(count, share)) for slot, count in counts if count > 0]

    def _part(self, slot: int, count: int) -> Part:
        trail = self._trails[slot]
        assert trail.before is not None
        tokens = trail.tokens[trail.read + self._shift :][:count]
        return Part(slot, trail.read, tokens, 0, trail.before[:count])

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        """Draft on from what the trunk holds and the newest token, the only one of each row."""
        limit = self._blocks.limit
        able = [
            replace(roll, depth=min(roll.depth, limit))
            for roll in rolls
            if self._follows(roll.row.slot, roll.start - 1)
        ]
        slots = [roll.row.slot for roll in able]
        try:
            drafts = self._roll(able)
        except BackendError as error:
            self._give_up(slots, error)
            drafts = [Draft(NONE, self.proposer) for _ in able]
        finally:
            for slot in self._drafted:  # it read what may never be said, by states of its own
                self._memory.remove(slot, self._trails[slot].read)
            self._drafted.clear()
        made = dict(zip(slots, drafts, strict=True))
        return [made.get(roll.row.slot, Draft(NONE, self.proposer)) for roll in rolls]

    def _roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        slots = [roll.row.slot for roll in rolls]
        share = self._batch // max(len(slots), 1) - self._blocks.widest
        self._catch_up({slot: 0 for slot in slots if self._behind(slot) > share})
        drafts = roll_by_forward(self, rolls, self.proposer)
        if texts := list(self._drafted.values()):
            self._blocks.finish(texts)
        for text in texts:
            self._trails[text.slot].advance(text.settled)
            self._trails[text.slot].forget_states()
        return drafts

    def behind(self, slot: int) -> int | None:
        return None if self._trails[slot].lost else max(self._behind(slot), 0)

    def catch_up(self, slots: Sequence[int]) -> None:
        try:
            self._catch_up(dict.fromkeys(slots, 0))
        except BackendError as error:
            self._give_up(slots, error)

    def leave(self, slot: int) -> None:
        """Take in no more of a text, until it is truncated to what was read of it."""
        trail = self._trails[slot]
        self._trails[slot] = HeldText(None, trail.tokens, trail.read, lost=True)

    def _give_up(self, slots: Iterable[int], error: BackendError) -> None:
        """Draft no more for these texts: no request ends because of its head."""
        LOG.warning("the drafting head leaves a text: %s", error)
        for slot in slots:
            self._memory.clear(slot)
            self._trails[slot] = HeldText(None, lost=True)

    def _follows(self, slot: int, length: int) -> bool:
        """Whether it knows so many tokens, and the state at the last of them."""
        trail = self._trails[slot]
        known = trail.before is not None and len(trail.tokens) == length
        return known and not trail.lost and self._behind(slot) >= 0

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
        text = self._drafted.get(row.slot)
        if text is None:
            trail = self._trails[row.slot]
            assert trail.before is not None
            known = trail.tokens[trail.read + self._shift :]
            text = DraftedText(row.slot, trail.read, len(known), known, trail.before)
            self._drafted[row.slot] = text
        text.tokens = np.concatenate((text.tokens, row.tokens))
        return text

    def enough(self, slot: int, length: int) -> int:
        """Choose how many tokens the trunk shall keep of so many.

        The state at the last token that the head has read is gone once it has read further: the
        trunk reads that token again.
        """
        gone = self._lag and length - self._shift < self._trails[slot].read
        return length - 1 if gone else length

    def truncate(self, slot: int, length: int) -> None:
        """Know no more than so many tokens; the trunk may hold fewer, and read the rest again."""
        trail = self._trails[slot]
        if not length:
            self._memory.clear(slot)
            self._trails[slot] = self._empty()
            return
        trail.tokens, entries = trail.tokens[:length], length - self._shift
        if entries < trail.read:
            self._memory.remove(slot, entries)
            trail.read, trail.before = entries, None if self._lag else self._nothing
            trail.lost = False
        elif trail.before is not None:
            trail.before = trail.before[: entries - trail.read + self._lag]

    def copy(self, source: int, target: int) -> None:
        """Let a slot hold all that another holds."""
        self.truncate(target, 0)
        copied = not self._trails[source].read or self._memory.copy(source, target, -1)
        self._trails[target] = (
            self._trails[source].copied() if copied else HeldText(None, lost=True)
        )

    def save(self, slot: int, trunk: Data, most: int) -> Data | None:
        """Add what the head holds of a slot to what the trunk holds, in at most so many bytes."""
        trail = self._trails[slot]
        if trail.before is None or trail.lost:
            return joined(trunk)
        own = self._memory.save(slot, most - len(trunk)) if trail.read else NO_DATA
        if own is None:
            return joined(trunk)
        whole = joined(trunk, own, trail.tokens, trail.before)
        return whole if len(whole) <= most else None

    def restore(self, slot: int, data: Data) -> Data:
        """Take what `save` added out of it; return what is the trunk's."""
        trunk, *rest = parted(data)
        self._trails[slot] = HeldText(None, lost=True)
        if rest:
            own, tokens, before = rest
            states = before.view(np.float32).reshape(-1, self._nothing.shape[1])
            text = HeldText(states.copy(), tokens.view(np.int32).copy())
            text.read = len(text.tokens) - self._shift + self._lag - len(states)
            if not len(own) or self._memory.restore(slot, own) == text.read:
                self._trails[slot] = text
        return trunk

    def close(self) -> None:
        self._blocks.close()
        if self._closing:
            self._closing()


class FreedHead:
    """Stands in for a head that was freed, to tell apart what was saved with it."""

    def enough(self, slot: int, length: int) -> int:
        return length

    def truncate(self, slot: int, length: int) -> None:
        pass

    def copy(self, source: int, target: int) -> None:
        pass

    def save(self, slot: int, trunk: Data, most: int) -> Data | None:
        return joined(trunk)

    def restore(self, slot: int, data: Data) -> Data:
        return parted(data)[0]

    def close(self) -> None:
        pass


def joined(*parts: NDArray[np.generic]) -> Data:
    """Lay arrays out one after the other, behind their number and sizes in bytes."""
    sizes = np.array([len(parts), *[part.nbytes for part in parts]], np.int64)
    return np.concatenate([part.ravel().view(np.uint8) for part in (sizes, *parts)])


def parted(data: Data) -> list[Data]:
    """Take apart what `joined` laid out."""
    count = int(data[:8].view(np.int64)[0])
    sizes = data[8 : 8 * (1 + count)].view(np.int64)
    ends = 8 * (1 + count) + np.cumsum(sizes)
    return [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]

"""A drafting head inside a model (multi-token prediction): it reads the trunk's hidden states.

The head keeps keys and values of its own. At position p it reads token p and the trunk's hidden
state at p - 1, so it can follow the trunk up to the newest token, and goes on from there with
hidden states of its own.

    trunk   x0 x1 ... x(n-1)        h0 h1 ... h(n-1)
    head    (x0, 0) (x1, h0) ... (xn, h(n-1)) -> x(n+1), h'n -> ...
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from localspec.backend import Roll, Row
from localspec.draft import Draft
from localspec.errors import BackendError
from localspec.roll import roll_by_forward
from localspec.tokens import NONE, Logits, Tokens, common_prefix
from localspec_llamacpp.bindings.batch import Hidden, Part
from localspec_llamacpp.bindings.context import Context

LOG = logging.getLogger("localspec")
Data = NDArray[np.uint8]
NO_DATA = np.empty(0, np.uint8)
NAME = "mtp"
LAG = 64  # tokens that the head may be behind; it reads them together with its next draft


@dataclass(slots=True)
class HeldText:
    """The tokens that the trunk holds of one text, and how far the head has read them."""

    before: Hidden | None  # states before the tokens that are not read, and before the next one
    tokens: Tokens = field(default_factory=lambda: NONE)
    read: int = 0
    lost: bool = False  # the trunk holds more than is known here: nothing can be drafted

    @property
    def behind(self) -> int:
        return len(self.tokens) - self.read


class LlamaHead:
    """Follows what the trunk holds, slot by slot; the model that owns it keeps both in step."""

    proposer = NAME

    def __init__(self, context: Context, width: int, slots: int, batch: int) -> None:
        self._context = context
        self._nothing = np.zeros((1, width), np.float32)
        self._batch = batch
        self._trails = [HeldText(self._nothing) for _ in range(slots)]
        self._own: dict[int, Hidden] = {}  # states of its own while it rolls, by slot

    def note(self, rows: Sequence[Row], positions: Sequence[int], hidden: Hidden) -> None:
        """Take in what the trunk has just read, and its hidden state at every token."""
        end = 0
        for row, position in zip(rows, positions, strict=True):
            start, end = end, end + len(row.tokens)
            self._append(row, position, hidden[start:end])
        # What may be taken back is read once that is settled.
        unsettled = {row.slot: len(row.tokens) if row.tentative else 0 for row in rows}
        late = {slot: n for slot, n in unsettled.items() if self._trails[slot].behind - n > LAG}
        try:
            self._catch_up(late)
        except BackendError as error:
            self._give_up(late, error)

    def _append(self, row: Row, position: int, hidden: Hidden) -> None:
        """Go on from a position, which may be an earlier one: the trunk reads some tokens twice."""
        trail = self._trails[row.slot]
        if trail.lost:
            return
        known = common_prefix(trail.tokens[position:], row.tokens)
        if known < min(len(trail.tokens) - position, len(row.tokens)):
            self.truncate(row.slot, position + known)
        if trail.before is None:  # of a text that is not the one that was told, it is unknown
            state = hidden[trail.read - 1 - position :][:1] if position < trail.read else None
            trail.before = self._nothing if state is None else state.copy()
        if known < len(row.tokens):
            trail.tokens = np.concatenate((trail.tokens, row.tokens[known:]))
            trail.before = np.concatenate((trail.before, hidden[known:]))

    def _catch_up(self, kept_back: Mapping[int, int]) -> None:
        """Read what is known of these slots, but for so many tokens of each."""
        while parts := self._portions(kept_back):
            self._context.decode(parts)
            for part in parts:
                self._advance(part.sequence, len(part.tokens))

    def _portions(self, kept_back: Mapping[int, int]) -> list[Part]:
        share = max(self._batch // max(len(kept_back), 1), 1)
        counts = [(slot, self._trails[slot].behind - n) for slot, n in kept_back.items()]
        return [self._part(slot, min(count, share)) for slot, count in counts if count > 0]

    def _part(self, slot: int, count: int) -> Part:
        trail = self._trails[slot]
        assert trail.before is not None
        tokens = trail.tokens[trail.read : trail.read + count]
        return Part(slot, trail.read, tokens, 0, trail.before[:count])

    def _advance(self, slot: int, count: int) -> None:
        trail = self._trails[slot]
        assert trail.before is not None
        trail.read += count
        trail.before = trail.before[count:]

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        """Draft on from what the trunk holds and the newest token, the only one of each row."""
        able = [roll for roll in rolls if self._follows(roll.row.slot, roll.start - 1)]
        share = self._batch // max(len(able), 1) - 1
        slots = [roll.row.slot for roll in able]
        try:
            self._catch_up({slot: 0 for slot in slots if self._trails[slot].behind > share})
            drafts = roll_by_forward(self, able, NAME)
        except BackendError as error:
            self._give_up(slots, error)
            drafts = [Draft(NONE, NAME) for _ in able]
        finally:
            for slot in self._own:  # it read what may never be said, by states of its own
                self._context.remove(slot, self._trails[slot].read)
            self._own.clear()
        made = dict(zip(slots, drafts, strict=True))
        return [made.get(roll.row.slot, Draft(NONE, NAME)) for roll in rolls]

    def _give_up(self, slots: Iterable[int], error: BackendError) -> None:
        """Draft no more for these texts: no request ends because of its head."""
        LOG.warning("the drafting head leaves a text: %s", error)
        for slot in slots:
            self._trails[slot].lost = True

    def _follows(self, slot: int, length: int) -> bool:
        """Whether it knows so many tokens, and the state at the last of them."""
        trail = self._trails[slot]
        return not trail.lost and trail.before is not None and len(trail.tokens) == length

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        """Read one more token of each row: the newest with all before it, then drafted ones."""
        parts = [self._step(row) for row in rows]
        logits = self._context.decode(parts)
        ends = np.cumsum([len(part.tokens) for part in parts])
        hidden = self._context.hidden(int(ends[-1]))[ends - 1]
        for at, part in enumerate(parts):
            slot = part.sequence
            if slot not in self._own:
                self._advance(slot, len(part.tokens) - 1)
            self._own[slot] = hidden[at : at + 1]
        return [logits[at : at + 1] for at in range(len(rows))]

    def _step(self, row: Row) -> Part:
        trail, own = self._trails[row.slot], self._own.get(row.slot)
        if own is not None:
            return Part(row.slot, len(trail.tokens) + row.tentative, row.tokens, 1, own)
        tokens = np.concatenate((trail.tokens[trail.read :], row.tokens))
        return Part(row.slot, trail.read, tokens, 1, trail.before)

    def enough(self, slot: int, length: int) -> int:
        """Choose how many tokens the trunk shall keep of so many.

        The state at the last token that the head has read is gone once it has read further: the
        trunk reads that token again.
        """
        return length if length >= self._trails[slot].read else length - 1

    def truncate(self, slot: int, length: int) -> None:
        """Know no more than so many tokens; the trunk may hold fewer, and read the rest again."""
        trail = self._trails[slot]
        if not length:
            self._context.clear(slot)
            self._trails[slot] = HeldText(self._nothing)
        elif length >= trail.read:
            trail.tokens = trail.tokens[:length]
            if trail.before is not None:
                trail.before = trail.before[: length - trail.read + 1]
        else:
            self._context.remove(slot, length)
            trail.tokens, trail.read, trail.before = trail.tokens[:length], length, None

    def copy(self, source: int, target: int) -> None:
        """Let a slot hold all that another holds."""
        self.truncate(target, 0)
        copied = not self._trails[source].read or self._context.copy(source, target, -1)
        self._trails[target] = (
            replace(self._trails[source]) if copied else HeldText(None, lost=True)
        )

    def save(self, slot: int, trunk: Data, most: int) -> Data | None:
        """Add what the head holds of a slot to what the trunk holds, in at most so many bytes."""
        trail = self._trails[slot]
        if trail.before is None or trail.lost:
            return joined(trunk)
        own = self._context.save(slot, most - len(trunk)) if trail.read else None
        if trail.read and own is None:
            return joined(trunk)
        whole = joined(trunk, own if own is not None else NO_DATA, trail.tokens, trail.before)
        return whole if len(whole) <= most else None

    def restore(self, slot: int, data: Data) -> Data:
        """Take what `save` added out of it; return what is the trunk's."""
        trunk, *rest = parted(data)
        self._trails[slot] = HeldText(None, lost=True)
        if rest:
            own, tokens, before = rest
            read = self._context.restore(slot, own) if len(own) else 0
            if read or not len(own):
                states = before.view(np.float32).reshape(-1, self._nothing.shape[1])
                self._trails[slot] = HeldText(states.copy(), tokens.view(np.int32).copy(), read)
        return trunk

    def close(self) -> None:
        self._context.close()


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

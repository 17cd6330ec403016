"""A drafting head behind the core's seam: it follows what its target holds, and drafts from there.

Its target computes the states that it reads, lazily; nothing is copied to the host. The head reads
them some tokens late, together with its next draft, so that a text without drafts costs it little.
The first token of a text has no state before it: the head leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import mlx.core as mx
import numpy as np

from localspec.base.tokens import Logits
from localspec.interfaces.backend import Options, Roll, Row
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import RolledRow, roll_by_forward
from localspec.interfaces.text_progress import HeadProgress, drafts_of
from localspec_mlx.array_form import Arrays
from localspec_mlx.chain import chained, extend, follow
from localspec_mlx.devices import tidy
from localspec_mlx.heads.ahead import Begun, Foresight, OwnStates, Verified
from localspec_mlx.heads.lazy_rows import LazyRows
from localspec_mlx.heads.reader import LoadedHead, Part
from localspec_mlx.host import Host
from localspec_mlx.runner import lead
from localspec_mlx.slots import ANCHORS, CacheSlots

Stream = mx.ThreadLocalStream


class MlxHead:
    def __init__(
        self, loaded: LoadedHead, options: Options, target: CacheSlots, host: Host, stream: Stream
    ) -> None:
        self.proposer = loaded.proposer
        self._reader = loaded.reader(target, options.slots)
        self._ahead = loaded.ahead
        self.slots = self._reader.slots
        self._batch = options.batch
        self._stream = stream
        self._host = host
        # States of no numbers are never missing.
        lag = 0 if loaded.tap.stateless else 1
        self._progress = HeadProgress(options.slots, shift=1, lag=lag, new_rows=LazyRows)
        self._texts = self._progress.texts
        self._own: dict[int, OwnStates] = {}
        self._foresights = [Foresight() for _ in range(options.slots)]

    def note(
        self, rows: Sequence[Row], positions: Sequence[int], states: Mapping[int, mx.array]
    ) -> None:
        """Take in what the target has read, and its states; read what the head is too late with."""
        for row, position in zip(rows, positions, strict=True):
            self._foresights[row.slot].drop()
            self._append(row, position, states[row.slot])
        self._catch_up(self._progress.late(rows))

    def _append(self, row: Row, position: int, states: mx.array) -> None:
        text = self._texts[row.slot]
        text.append(row.tokens, position, states)
        self.slots.truncate(row.slot, text.read)  # it may not be the text that was promised
        if (first := lead(row)) and not text.lost:
            # A copy: a part of an array keeps all of it.
            text.anchors[position + first] = mx.take(states, mx.array([first - 1]), axis=0)
            text.anchors = dict(sorted(text.anchors.items())[-ANCHORS:])

    def go_ahead(self, rows: Sequence[Row], logits: Sequence[mx.array]) -> None:
        """Begin the next drafts of texts whose last ones are being verified by these logits."""
        verified: dict[int, Verified] = {}
        for row, theirs in zip(rows, logits, strict=True):
            text = self._texts[row.slot]
            draft = self._foresights[row.slot].verifies(row, theirs)
            if draft and not text.lost and text.behind == len(draft.drafted) + 1:
                verified[row.slot] = draft
        try:
            if verified:
                self._begin(verified)
        except Exception as error:  # as MLX reports whatever goes wrong
            self._give_up(verified, error)

    def _begin(self, verified: Mapping[int, Verified]) -> None:
        """Read on from each place that the device finds, and draft."""
        at = list(verified)
        read = self._reader.read({slot: self._foreseen(slot, verified[slot]) for slot in at})
        for index, slot in enumerate(at):
            rejected = verified[slot].rejected
            self.slots.shorten(slot, rejected)
            states = [read.states[index : index + 1]]
            self._own[slot] = OwnStates(self.slots.length(slot), states, rejected)
        first = self._reader.logits(read.outputs).astype(mx.float32)
        steps = chained(
            self, self._host, at, first, lambda newer: [verified[s].choice(len(newer)) for s in at]
        )
        chain = list(islice(steps, max(self._foresights[slot].expected for slot in at)))
        arrays: list[mx.array] = []
        for index, slot in enumerate(at):
            begun = Begun(verified[slot], chain, index, self._own.pop(slot))
            self._foresights[slot].begun = begun
            arrays += [verified[slot].choices, *begun.own.states]
        self._host.start(arrays, self.slots.arrays(at))

    def _foreseen(self, slot: int, draft: Verified) -> Part:
        """Return what the head reads next, and rejected tokens after it."""
        part = self._part(slot, len(draft.drafted) + 2)
        return part._replace(
            tokens=mx.concatenate([part.tokens[:1], draft.choices]), rejected=draft.rejected
        )

    def arrays(self, slots: Sequence[int]) -> list[mx.array]:
        """List the arrays to evaluate, which else keep what they were computed from."""
        texts = [self._texts[slot] for slot in slots]
        unread = [text.unread()[1] for text in texts]
        anchors = [state for text in texts for state in text.anchors.values()]
        return [*unread, *anchors, *self.slots.arrays(slots)]

    def _catch_up(self, kept_back: Mapping[int, int]) -> None:
        """Read what is unread of these slots, but for the tokens of each that are kept back."""
        for counts in self._progress.portions(kept_back, self._batch):
            self._reader.take_in({slot: self._part(slot, n) for slot, n in counts.items()})

    def _part(self, slot: int, count: int, *newest: mx.array) -> Part:
        """Return the next tokens that the head has not read, and the newest if it is given."""
        text = self._texts[slot]
        tokens, states = text.unread(count)
        tokens = np.maximum(tokens, 0)  # positions of pictures have no token: any may stand there
        return Part(mx.concatenate([mx.array(tokens), *newest]), states, len(text.tokens))

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        able = self._progress.able(rolls, self._reader.limit)
        slots = [roll.row.slot for roll in able]
        tidy()
        drafts: list[Draft] = []
        try:
            with mx.stream(self._stream):
                drafts = self._drafts(able) if able else []
        except Exception as error:  # as MLX reports whatever goes wrong
            self._give_up(slots, error)
        finally:
            for slot in self._own:  # it read what may never be said, by states of its own
                self.slots.truncate(slot, self._texts[slot].read)
            self._own.clear()
        return drafts_of(rolls, dict(zip(slots, drafts, strict=False)), self.proposer)

    def _drafts(self, rolls: Sequence[Roll]) -> list[Draft]:
        share = self._batch // len(rolls) - 1
        paths = [RolledRow(roll) for roll in rolls]
        by_forward = not all(roll.sampler.is_foreseen for roll in rolls)
        for path in paths:
            self._take_up(path, by_forward=by_forward)
        self._catch_up({r.row.slot: 0 for r in rolls if self._texts[r.row.slot].behind > share})
        if by_forward:
            return roll_by_forward(self, rolls, self.proposer)
        while live := [path for path in paths if path.wants]:
            # A head may read its first token otherwise than the next ones, and stop at its limit.
            fewest = min(len(path.tokens) for path in live)
            extend(self, self._host, [path for path in live if len(path.tokens) == fewest])
        drafts = [path.draft(self.proposer) for path in paths]
        if self._ahead:
            for roll, draft in zip(rolls, drafts, strict=True):
                self._foresights[roll.row.slot].drafted(roll, draft.tokens)
        return drafts

    def _take_up(self, path: RolledRow, *, by_forward: bool) -> None:
        """Draw the tokens of a draft that was begun, if the core went on as foreseen."""
        slot, newest = path.roll.row.slot, path.roll.row.tokens[-1]
        begun, text = self._foresights[slot].asked(), self._texts[slot]
        if begun is None:
            return
        accepted = len(text.tokens) - begun.verified.roll.start
        choices = self._host.read(begun.verified.choices).tolist()
        if by_forward or not begun.verified.agrees(accepted, newest, choices):
            self.slots.truncate(slot, text.read)
            return
        start = begun.own.start - len(begun.verified.drafted) + accepted
        self._own[slot] = OwnStates(start, begun.own.states)
        text.advance(text.behind)
        follow(self._host, begun.chain, {begun.column: path})
        path.steps = len(begun.chain)
        self.slots.truncate(slot, start + len(path.tokens) - 1)

    def behind(self, slot: int) -> int | None:
        return self._progress.behind(slot)

    def catch_up(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._foresights[slot].drop()
            self.slots.truncate(slot, self._texts[slot].read)
        try:
            with mx.stream(self._stream):
                self._catch_up(dict.fromkeys(slots, 0))
                self._host.start(self.arrays(slots))
        except Exception as error:  # as MLX reports whatever goes wrong
            self._give_up(slots, error)

    def leave(self, slot: int) -> None:
        """Follow on: a device reads 64 tokens in about the time of one."""

    def _give_up(self, slots: Iterable[int], error: Exception) -> None:
        self._progress.give_up(slots, error)
        for slot in slots:
            self._foresights[slot] = Foresight()
            self._own.pop(slot, None)
            self.slots.clear(slot)

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        """Read one more token of each row, and wait for what follows it."""
        logits = self.run(rows)
        self._host.finish([logits], self.slots.arrays([row.slot for row in rows]))
        return [row[None] for row in self._host.read(logits)]

    def run(self, rows: Sequence[Row]) -> mx.array:
        """Read the newest token of each text with all before it, then drafted ones."""
        return self._advance({row.slot: mx.array(row.tokens) for row in rows})

    def step(self, at: Sequence[int], tokens: mx.array) -> mx.array:
        return self._advance({s: tokens[i : i + 1].astype(mx.int32) for i, s in enumerate(at)})

    def _advance(self, newest: Mapping[int, mx.array]) -> mx.array:
        """Read a token of each slot; return the logits that follow."""
        read = self._reader.read({s: self._following(s, token) for s, token in newest.items()})
        for at, slot in enumerate(newest):
            held = self.slots.length(slot)
            if slot not in self._own:
                self._own[slot] = OwnStates(held, [])
                self._texts[slot].advance(self._texts[slot].behind)
            own = self._own[slot]
            own.states[held - own.start :] = [read.states[at : at + 1]]
        return self._reader.logits(read.outputs).astype(mx.float32)

    def _following(self, slot: int, token: mx.array) -> Part:
        """Return a token with the state before it, or all that is unread where drafting begins."""
        own, text = self._own.get(slot), self._texts[slot]
        if own is None:
            return self._part(slot, text.behind + 1, token)
        state = own.states[self.slots.length(slot) - own.start]
        return Part(token, state, len(text.tokens), own.rejected)

    def enough(self, slot: int, length: int) -> int:
        """Choose how many of `length` tokens the target shall keep."""
        return self._texts[slot].enough(length)

    def truncate(self, slot: int, length: int) -> None:
        """Hold no more than `length` tokens; the target may hold fewer, and read the rest again."""
        self._texts[slot].truncate(length)
        if not length:
            self._foresights[slot] = Foresight()
            self.slots.clear(slot)
        elif self._foresights[slot].begun is None:
            self.slots.truncate(slot, self._texts[slot].read)

    def content(self, slot: int) -> list[Arrays]:
        """Return what the head holds of a text; nothing if it does not follow it."""
        text = self._texts[slot]
        own = self.slots.content(slot, text.read) if text.read else []
        if own is None or not text.follows(len(text.tokens)):
            return []
        return [[mx.array(text.tokens), text.unread()[1]], *own]

    def fill(self, slot: int, content: Sequence[Arrays]) -> None:
        """Follow the text of a slot that holds nothing yet, by what was held of it elsewhere."""
        text = self._texts[slot]
        if not content:
            text.give_up()
            return
        [tokens, states], *own = content
        assert states is not None
        text.resume(np.array(tokens), states, len(states))
        if text.read:
            self.slots.fill(slot, own, text.read)

    def copy(self, source: int, target: int) -> None:
        """Let a slot hold all that another holds."""
        self._texts[target], self._foresights[target] = self._texts[source].copied(), Foresight()
        self.slots.copy(source, target, self._texts[source].read)

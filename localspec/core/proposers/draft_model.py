"""Draft with a smaller model that has the target's tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.base.errors import ContextFull
from localspec.base.tokens import NONE, Tokens, common_prefix
from localspec.core.pairing.pair import Pair
from localspec.core.prefix_cache import matching
from localspec.interfaces.backend import Model, Roll, Row
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask

ALONG = 2  # tokens that the first step of a draft reads: the newest, and one that was drafted last
FLOOR = 0.4  # stop below this chance that all is right, unless the ask has its own rule


class DraftModelProposer:
    """Reconciles its KV cache with the history at every ask, by their common prefix.

    It reads tokens only, as if there were no pictures in the text.
    """

    def __init__(self, model: Model, floor: float = FLOOR) -> None:
        self._model = model
        self._floor = floor
        self._held: list[Tokens] = [NONE] * model.slots
        self._released = set(range(model.slots))
        self._given_up: set[int] = set()

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        able = [ask for ask in map(Ask.blind, asks) if self._has_room(ask)]
        drafts = self._draft(able)
        return [drafts.get(ask.slot, EMPTY) for ask in asks]

    def unread(self, ask: Ask) -> int:
        """Count the tokens to read first; the newest goes with the last of an earlier draft."""
        ask = ask.blind()
        if not self._has_room(ask):
            return 0
        texts = self._held if ask.slot in self._released else [self._held[ask.slot]]
        held = max(common_prefix(text, ask.history) for text in texts)
        return max(len(ask.history) - held - ALONG, 0)

    def release(self, slot: int) -> None:
        """Keep the slot's KV cache: another text may begin the same way."""
        self._released.add(slot)
        self._given_up.discard(slot)

    def _has_room(self, ask: Ask) -> bool:
        return (
            ask.slot not in self._given_up and len(ask.history) + ask.limit <= self._model.context
        )

    def _draft(self, asks: Sequence[Ask]) -> dict[int, Draft]:
        try:
            for ask in asks:
                self._reconcile(ask)
            self._read_missing(asks)
            return self._roll([ask for ask in asks if ask.limit])
        except ContextFull as full:
            if self._empty_released():
                return self._draft(asks)
            self._give_up(full.slot)
            return self._draft([ask for ask in asks if ask.slot != full.slot])

    def _empty_released(self) -> bool:
        """Empty released slots; return whether any held something."""
        full = [slot for slot in self._released if len(self._held[slot])]
        for slot in full:
            self._held[slot] = NONE
            self._model.truncate(slot, 0)
        return bool(full)

    def _give_up(self, slot: int) -> None:
        """Stop drafting for a text whose draft model tokens exceed a slot."""
        self._given_up.add(slot)
        self._held[slot] = NONE
        self._model.truncate(slot, 0)

    def _reconcile(self, ask: Ask) -> None:
        """Keep the common prefix of cache and history, short of the newest token."""
        history = ask.history[:-1]
        shared = common_prefix(self._held[ask.slot], history)
        choice = matching.SlotChoice(ask.slot, shared, ask.slot, shared)
        if ask.slot in self._released:
            self._released.discard(ask.slot)
            choice = self._longest(choice, history)
        self._held[ask.slot] = history[: matching.settle(self._model, choice)]

    def _longest(self, own: matching.SlotChoice, history: Tokens) -> matching.SlotChoice:
        shared = [common_prefix(held, history) for held in self._held]
        best = max(range(len(shared)), key=shared.__getitem__)
        return matching.SlotChoice(own.slot, own.own, best, shared[best])

    def _read_missing(self, asks: Sequence[Ask]) -> None:
        """Feed the missing tokens, except those that the first step of the roll takes along."""
        share = max(self._model.batch // max(len(asks), 1), 1)
        while behind := [ask for ask in asks if self._missing(ask) > (share if ask.limit else 1)]:
            rows = [self._portion(ask, share) for ask in behind]
            self._model.forward(rows)
            for ask, row in zip(behind, rows, strict=True):
                self._held[ask.slot] = ask.history[: len(self._held[ask.slot]) + len(row.tokens)]

    def _portion(self, ask: Ask, share: int) -> Row:
        first = len(self._held[ask.slot])
        last = min(first + share, len(ask.history) - 1)
        return Row(ask.slot, ask.history[first:last], outputs=0)

    def _missing(self, ask: Ask) -> int:
        return len(ask.history) - len(self._held[ask.slot])

    def _roll(self, asks: Sequence[Ask]) -> dict[int, Draft]:
        drafts = self._model.roll([self._start(ask) for ask in asks]) if asks else []
        for ask, draft in zip(asks, drafts, strict=True):
            self._held[ask.slot] = np.concatenate((ask.history, draft.tokens[:-1]))
        return {ask.slot: draft for ask, draft in zip(asks, drafts, strict=True)}

    def _start(self, ask: Ask) -> Roll:
        row = Row(ask.slot, ask.history[len(self._held[ask.slot]) :])
        start = len(ask.history) + ask.hints.media
        return Roll(row, ask.limit, ask.sampler, start, ask.pays_above(self._floor))


def make(pair: Pair) -> DraftModelProposer:
    assert pair.draft is not None, "there is no draft model"
    return DraftModelProposer(pair.draft)

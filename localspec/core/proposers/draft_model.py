"""Draft with a smaller model that has the target's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from localspec.base.errors import ContextFull
from localspec.base.tokens import NONE, Tokens, common_prefix
from localspec.core.pairing.pair import Pair
from localspec.core.prefix_cache import matching
from localspec.core.proposers.window import MIN_WINDOW, window
from localspec.interfaces.backend import Model, Roll, Row
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask

ALONG = 2  # tokens that the first step of a draft reads: the newest, and one that was drafted last
FLOOR = 0.4  # stop below this chance that all is right, unless the ask has its own rule


class Excerpt(NamedTuple):
    """The tokens that the model is to hold for an ask."""

    slot: int
    tokens: Tokens
    limit: int
    ask: Ask


class DraftModelProposer:
    """Reconciles its KV cache with the window of a history at every ask, by their common prefix.

    It reads tokens only, as if there were no pictures in the text. Drafts are never more than
    guesses: what the model does not read costs acceptance, and changes no text.
    """

    def __init__(self, model: Model, floor: float = FLOOR, context: int | None = None) -> None:
        """Read at most `context` tokens of a text at once, those of a draft included."""
        self._model = model
        self._floor = floor
        self._most = min(context or model.context, model.context) - model.tentative
        self._sizes = [self._most] * model.slots  # of the windows
        self._held: list[Tokens] = [NONE] * model.slots
        self._released = set(range(model.slots))

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        drafts = self._draft(asks)
        return [drafts.get(ask.slot, EMPTY) for ask in asks]

    def unread(self, ask: Ask) -> int:
        """Count the tokens to read first; the newest goes with the last of an earlier draft."""
        excerpt = self._excerpt(ask)
        if not excerpt:
            return 0
        texts = self._held if ask.slot in self._released else [self._held[ask.slot]]
        held = max(common_prefix(text, excerpt.tokens) for text in texts)
        return max(len(excerpt.tokens) - held - ALONG, 0)

    def release(self, slot: int) -> None:
        """Keep the slot's KV cache: another text may begin the same way."""
        self._released.add(slot)
        self._sizes[slot] = self._most

    def _excerpt(self, ask: Ask) -> Excerpt | None:
        size = self._sizes[ask.slot]
        if size < MIN_WINDOW:
            return None
        seen = ask.blind()
        tokens = window(seen.history, max(seen.prompt, len(seen.history)), size)
        limit = min(ask.limit, size + self._model.tentative - len(tokens))
        return Excerpt(ask.slot, tokens, limit, ask)

    def _draft(self, asks: Sequence[Ask]) -> dict[int, Draft]:
        excerpts = [excerpt for ask in asks if (excerpt := self._excerpt(ask))]
        try:
            for excerpt in excerpts:
                self._reconcile(excerpt)
            self._read_missing(excerpts)
            return self._roll([excerpt for excerpt in excerpts if excerpt.limit])
        except ContextFull as full:
            if not self._empty_released():
                self._narrow(full.slot)
            return self._draft(asks)

    def _empty_released(self) -> bool:
        """Empty released slots; return whether any held something."""
        full = [slot for slot in self._released if len(self._held[slot])]
        for slot in full:
            self._held[slot] = NONE
            self._model.truncate(slot, 0)
        return bool(full)

    def _narrow(self, slot: int) -> None:
        """Read half as much of a text whose draft model tokens exceed a slot, and at last none."""
        self._sizes[slot] //= 2
        self._held[slot] = NONE
        self._model.truncate(slot, 0)

    def _reconcile(self, excerpt: Excerpt) -> None:
        """Keep the common prefix of cache and window, short of the newest token."""
        slot, tokens = excerpt.slot, excerpt.tokens[:-1]
        shared = common_prefix(self._held[slot], tokens)
        choice = matching.SlotChoice(slot, shared, slot, shared)
        if slot in self._released:
            self._released.discard(slot)
            choice = self._longest(choice, tokens)
        self._held[slot] = tokens[: matching.settle(self._model, choice)]

    def _longest(self, own: matching.SlotChoice, history: Tokens) -> matching.SlotChoice:
        shared = [common_prefix(held, history) for held in self._held]
        best = max(range(len(shared)), key=shared.__getitem__)
        return matching.SlotChoice(own.slot, own.own, best, shared[best])

    def _read_missing(self, excerpts: Sequence[Excerpt]) -> None:
        """Feed the missing tokens, except those that the first step of the roll takes along."""
        share = max(self._model.batch // max(len(excerpts), 1), 1)
        while behind := [e for e in excerpts if self._missing(e) > (share if e.limit else 1)]:
            rows = [self._portion(excerpt, share) for excerpt in behind]
            self._model.forward(rows)
            for excerpt, row in zip(behind, rows, strict=True):
                read = len(self._held[excerpt.slot]) + len(row.tokens)
                self._held[excerpt.slot] = excerpt.tokens[:read]

    def _portion(self, excerpt: Excerpt, share: int) -> Row:
        first = len(self._held[excerpt.slot])
        last = min(first + share, len(excerpt.tokens) - 1)
        return Row(excerpt.slot, excerpt.tokens[first:last], outputs=0)

    def _missing(self, excerpt: Excerpt) -> int:
        return len(excerpt.tokens) - len(self._held[excerpt.slot])

    def _roll(self, excerpts: Sequence[Excerpt]) -> dict[int, Draft]:
        drafts = self._model.roll([self._start(e) for e in excerpts]) if excerpts else []
        for excerpt, draft in zip(excerpts, drafts, strict=True):
            self._held[excerpt.slot] = np.concatenate((excerpt.tokens, draft.tokens[:-1]))
        return {excerpt.slot: draft for excerpt, draft in zip(excerpts, drafts, strict=True)}

    def _start(self, excerpt: Excerpt) -> Roll:
        slot, tokens, limit, ask = excerpt
        row = Row(slot, tokens[len(self._held[slot]) :])
        pays = ask.pays_above(self._floor)
        return Roll(row, limit, ask.sampler, len(ask.history), pays, tokens)


def make(pair: Pair) -> DraftModelProposer:
    assert pair.draft is not None, "there is no draft model"
    return DraftModelProposer(pair.draft, context=pair.draft_context)

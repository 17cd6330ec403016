"""Draft with the head of a target: in its file (MTP), or beside it (EAGLE-3, DFlash, Medusa)."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.base.errors import UsageError
from localspec.core.pairing.pair import Pair
from localspec.interfaces.backend import Head, Roll, Row
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask

FLOOR = 0.4  # where nothing says what pays: stop once the chance that all is right is below


class HeadProposer:
    """The head follows the target by itself, so nothing is to be reconciled here."""

    def __init__(self, head: Head, floor: float = FLOOR) -> None:
        self._head = head
        self._floor = floor

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        wanting = [ask for ask in asks if ask.limit]
        drafts = self._head.roll([self._start(ask) for ask in wanting]) if wanting else []
        by_slot = {ask.slot: draft for ask, draft in zip(wanting, drafts, strict=True)}
        return [by_slot.get(ask.slot, EMPTY) for ask in asks]

    def release(self, slot: int) -> None:
        pass

    def behind(self, slot: int) -> int | None:
        return self._head.behind(slot)

    def catch_up(self, slots: Sequence[int]) -> None:
        self._head.catch_up(slots)

    def leave(self, slot: int) -> None:
        self._head.leave(slot)

    def _start(self, ask: Ask) -> Roll:
        text, pays = ask.history, ask.pays_above(self._floor)
        return Roll(Row(ask.slot, text[-1:]), ask.limit, ask.sampler, len(text), pays, text)


def make(pair: Pair) -> HeadProposer:
    if pair.target.head is None:
        raise UsageError("this model was loaded without a drafting head")
    return HeadProposer(pair.target.head)

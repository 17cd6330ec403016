"""Try proposers in order; each sees only the sequences the ones before it passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask, Proposer, RoundCost, notes_of


class FirstOf:
    """Takes for each sequence the first draft that is not empty."""

    def __init__(self, proposers: Mapping[str, Proposer]) -> None:
        self._proposers = proposers
        self._notes = notes_of(proposers.values())

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        drafts = [EMPTY for _ in asks]
        for by, proposer in self._proposers.items():
            open_ = [at for at, ask in enumerate(asks) if not len(drafts[at]) and ask.wants(by)]
            if open_:
                offers = proposer.propose([asks[at] for at in open_])
                for at, draft in zip(open_, offers, strict=True):
                    drafts[at] = draft
        return drafts

    def release(self, slot: int) -> None:
        for proposer in self._proposers.values():
            proposer.release(slot)

    def note(self, cost: RoundCost) -> None:
        for note in self._notes:
            note(cost)

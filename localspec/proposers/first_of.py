"""Try proposers in order; each sees only the sequences the ones before it passed on."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.draft import EMPTY, Draft
from localspec.proposer import Ask, Proposer


class FirstOf:
    def __init__(self, *proposers: Proposer) -> None:
        self._proposers = proposers

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        drafts = [EMPTY for _ in asks]
        for proposer in self._proposers:
            passed = [at for at, draft in enumerate(drafts) if not len(draft)]
            if passed:
                offers = proposer.propose([asks[at] for at in passed])
                for at, draft in zip(passed, offers, strict=True):
                    drafts[at] = draft
        return drafts

    def release(self, slot: int) -> None:
        for proposer in self._proposers:
            proposer.release(slot)

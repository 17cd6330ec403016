"""Align a reply with a text that it repeats, in whole or edited."""

from __future__ import annotations

from bisect import bisect_right

from localspec.tokens import Tokens

# Tokens that must agree before the reply is placed elsewhere: the further away, the more.
NEXT = 4  # tokens left out for which one is enough
NEAR = 32  # for which two are
AHEAD = 4  # enough to leave out more
BACK = 6  # enough to go back
SURE = 4  # enough to forget where the reply stood before
MAX_RUN = 32  # most that are compared
CROWD = 8  # places with the same tokens that are looked at, on either side


class Alignment:
    """The place of a reply in a text, followed token by token."""

    def __init__(self, text: Tokens) -> None:
        self.run = 0  # how many of the reply's last tokens agree with the text before its place
        self._text: list[int] = text.tolist()
        self._place = 0  # the next token of the text; its end if the reply's place is unknown
        self._last = 0  # the last place that was sure
        self._reply: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}
        for end in range(AHEAD, len(self._text) + 1):
            self._ends.setdefault(tuple(self._text[end - AHEAD : end]), []).append(end)

    def read(self, token: int) -> None:
        """Follow the reply by a token."""
        self._reply.append(token)
        if self._text[self._place : self._place + 1] == [token]:
            self._place += 1
            self.run += 1
        else:
            self._seek()
        if self.run >= SURE:
            self._last = self._place

    def ahead(self, limit: int) -> list[int]:
        """Return the next tokens, if the reply goes on like the text."""
        return self._text[self._place : self._place + limit]

    def _seek(self) -> None:
        """Find the place with the longest agreement, of those the nearest."""
        self.run, nearness, self._place = 0, 0, len(self._text)
        for end in self._candidates():
            run = self._agreement(end)
            place = (run, -abs(end - self._last), end)
            if run >= self._enough(end) and place > (self.run, nearness, self._place):
                self.run, nearness, self._place = place

    def _candidates(self) -> list[int]:
        newest = self._reply[-1]
        near = enumerate(self._text[self._last : self._last + NEAR], self._last + 1)
        ends = self._ends.get(tuple(self._reply[-AHEAD:]), [])
        middle = bisect_right(ends, self._last)
        crowd = ends[max(middle - CROWD, 0) : middle + CROWD]
        return [end for end, token in near if token == newest] + crowd

    def _enough(self, end: int) -> int:
        skipped = end - 1 - self._last
        if skipped < 0:
            return BACK
        return 1 if skipped < NEXT else 2 if skipped < NEAR else AHEAD

    def _agreement(self, end: int) -> int:
        most = min(end, len(self._reply), MAX_RUN)
        run = 0
        while run < most and self._text[end - 1 - run] == self._reply[-1 - run]:
            run += 1
        return run

"""Whether the newest tokens of a text occurred before: quicker to tell than what followed them.

After a forward, with cold caches, it takes 10 to 20 us a token, an automaton that grows with it 36.
"""

from __future__ import annotations

from collections.abc import Iterable

SHORT, LONG = 2, 3
NOTHING = -1  # before the first token


class Runs:
    """All runs of two and of three tokens in a text. It takes up to 160 bytes a token."""

    def __init__(self) -> None:
        self.size = 0  # tokens of the text
        self.newest = (NOTHING,) * LONG  # the run at its end
        self.repeated = 0  # how many tokens of that occurred before: none, two or three
        self._seen: set[int] = set()

    def extend(self, tokens: Iterable[int]) -> None:
        seen, end = self._seen, self.newest
        for token in tokens:
            end = (end[1], end[2], token)
            long, short = hash(end), hash(end[1:])
            self.repeated = LONG if long in seen else SHORT if short in seen else 0
            seen.add(long)
            seen.add(short)
            self.size += 1
        self.newest = end

    def __contains__(self, run: tuple[int, ...]) -> bool:
        return hash(run) in self._seen

"""What was said before, for as long as there is room for it."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.errors import UsageError
from localspec.proposers.automaton import Automaton, MatchState
from localspec.tokens import Tokens

SHELVES = 4
LEAST = 64  # tokens that make a store
REACH = 32  # most tokens that are matched


class Replies:
    """Nothing can be taken out of an automaton, so replies are kept on shelves, an automaton each.

    The least recently used shelf is dropped whole.
    """

    def __init__(self, tokens: int = 200_000) -> None:
        if tokens < LEAST:
            raise UsageError(f"earlier replies have room for {tokens} tokens; give them {LEAST}")
        self._room = tokens // SHELVES
        self._open = Automaton()
        self._shelves = [self._open]  # the most recently used last

    def __len__(self) -> int:
        return sum(len(shelf) for shelf in self._shelves)

    def add(self, text: Tokens) -> None:
        """Remember a text, or as much of its end as a shelf can hold; what is known, but once."""
        kept = text[-(self._room - 1) :].tolist()
        if self.find(kept, longer=len(kept) - 1):
            return
        if len(self._open) + len(kept) >= self._room:
            self._open = Automaton()
            self._shelves = [*self._shelves, self._open][-SHELVES:]
        self._open.extend(kept)
        self._open.part()

    def find(self, newest: Sequence[int], longer: int) -> tuple[Automaton, MatchState] | None:
        """Where the longest run at the end of the tokens occurred, if longer than that."""
        best: tuple[Automaton, MatchState] | None = None
        for shelf in self._shelves:
            tail = newest[-longer - 1 :]
            if len(tail) > longer and shelf.locate(tail).length > longer:
                best = shelf, shelf.locate(newest)
                longer = best[1].length
        if best:
            self._shelves.remove(best[0])
            self._shelves.append(best[0])
        return best

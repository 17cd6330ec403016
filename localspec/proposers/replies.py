"""Earlier replies, within a bound of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.errors import UsageError
from localspec.proposers.automaton import Automaton, MatchState
from localspec.tokens import Tokens

AUTOMATA = 4
LEAST = 64  # tokens that make a store
REACH = 32  # most tokens that are matched


class Replies:
    """Keeps replies in several automata and drops the least recently used one whole.

    Single texts cannot be removed from an automaton.
    """

    def __init__(self, tokens: int = 200_000) -> None:
        if tokens < LEAST:
            raise UsageError(f"earlier replies have room for {tokens} tokens; give them {LEAST}")
        self._room = tokens // AUTOMATA
        self._open = Automaton()
        self._automata = [self._open]  # the most recently used last

    def __len__(self) -> int:
        return sum(len(automaton) for automaton in self._automata)

    def add(self, text: Tokens) -> None:
        """Add a text, or as much of its end as an automaton may hold, unless it is known."""
        kept = text[-(self._room - 1) :].tolist()
        if self.find(kept, longer=len(kept) - 1):
            return
        if len(self._open) + len(kept) >= self._room:
            self._open = Automaton()
            self._automata = [*self._automata, self._open][-AUTOMATA:]
        self._open.extend(kept)
        self._open.part()

    def find(self, newest: Sequence[int], longer: int) -> tuple[Automaton, MatchState] | None:
        """Find the longest run at the end of the tokens that occurred, if longer than `longer`."""
        best: tuple[Automaton, MatchState] | None = None
        for automaton in self._automata:
            tail = newest[-longer - 1 :]
            if len(tail) > longer and automaton.locate(tail).length > longer:
                best = automaton, automaton.locate(newest)
                longer = best[1].length
        if best:
            self._automata.remove(best[0])
            self._automata.append(best[0])
        return best

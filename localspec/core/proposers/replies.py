"""Earlier replies, within a bound of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.base.errors import UsageError
from localspec.base.tokens import Tokens
from localspec.core.proposers.automaton import Automaton, MatchState

STORES = 4
MIN_TOKENS = 64  # tokens that make a store
MAX_MATCH = 32  # most tokens that are matched


class Replies:
    """Keeps replies in several stores and drops the least recently used one whole.

    Single texts cannot be removed from an automaton.
    """

    def __init__(self, tokens: int = 200_000) -> None:
        if tokens < MIN_TOKENS:
            raise UsageError(
                f"earlier replies have room for {tokens} tokens; give them {MIN_TOKENS}"
            )
        self._store_tokens = tokens // STORES
        self._open = Automaton()
        self._stores = [self._open]  # the most recently used last

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def recurs(self, run: Sequence[int]) -> bool:
        """Whether a run of tokens occurred."""
        return any(store.locate(run).length == len(run) for store in self._stores)

    def add(self, text: Tokens) -> None:
        """Add a text, or as much of its end as a store may hold, unless it is known."""
        ending = text[-(self._store_tokens - 1) :].tolist()
        if self.longest_match(ending, longer=len(ending) - 1):
            return
        if len(self._open) + len(ending) >= self._store_tokens:
            self._open = Automaton()
            self._stores = [*self._stores, self._open][-STORES:]
        self._open.extend(ending)
        self._open.part()

    def longest_match(
        self, newest: Sequence[int], longer: int
    ) -> tuple[Automaton, MatchState] | None:
        """Find the longest run at the end of the tokens that occurred, if longer than `longer`."""
        best: tuple[Automaton, MatchState] | None = None
        for store in self._stores:
            tail = newest[-longer - 1 :]
            if len(tail) > longer and store.locate(tail).length > longer:
                best = store, store.locate(newest)
                longer = best[1].length
        if best:
            self._stores.remove(best[0])
            self._stores.append(best[0])
        return best

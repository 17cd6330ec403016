"""Banned strings: the tokens that would complete one are masked.

The mask is a function of the text alone, so that drafts change nothing of it. A string may begin
in one token and end in another.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import accumulate, islice, takewhile

import numpy as np

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import Logits
from localspec.core.sampling.highest import Ids

SEPARATOR = b"\xff"  # between tokens that are searched at once; no string has this byte
MAX_STEPS = 4096  # tokens after states of a text that are remembered
MAX_STATES = 64  # of which the masked tokens are remembered
MAX_LISTS = 4  # of strings, as requests repeat them


class TokenBytes:
    """The tokens of a vocabulary by their bytes, ASCII letters in lower case."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pieces = [tokenizer.token_bytes(token).lower() for token in range(tokenizer.size)]
        order = sorted(range(tokenizer.size), key=self.pieces.__getitem__)
        self._order = np.array(order, np.int64)
        self._sorted = [self.pieces[token] for token in order]
        self._text = SEPARATOR.join(self._sorted)
        self._starts = [0, *accumulate(len(piece) + 1 for piece in self._sorted)]

    def beginning_with(self, text: bytes) -> Ids:
        first = bisect_left(self._sorted, text)
        end = bisect_left(self._sorted, True, first, key=lambda piece: not piece.startswith(text))
        return self._order[first:end]

    def containing(self, text: bytes) -> Iterator[int]:
        at = self._text.find(text)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield int(self._order[place])
            at = self._text.find(text, self._starts[place + 1])


class BannedStrings:
    """Finds the tokens that would complete a string, by the state of the text before them.

    The state is the longest ending of the text with which a string begins.
    """

    def __init__(self, strings: Sequence[str], vocabulary: TokenBytes) -> None:
        self._vocabulary = vocabulary
        self._strings = sorted({spelled for string in strings for spelled in spellings(string)})
        self._first_bytes = frozenset(string[0] for string in self._strings)
        holding = (vocabulary.containing(string) for string in self._strings)
        self._holding = frozenset(token for tokens in holding for token in tokens)
        self._holding_ids = np.array(sorted(self._holding), np.int64)
        self.after = lru_cache(MAX_STEPS)(self._after)
        self._rests = lru_cache(MAX_STATES)(self._find_rests)
        self._completing = lru_cache(MAX_STATES)(self._find_completing)

    def masked(self, logits: Logits, state: bytes) -> Logits:
        """Mask the tokens that would complete a string; none, if no other token is left."""
        forbidden = self.forbidden(state)
        if not len(forbidden):
            return logits
        masked = logits.copy()
        masked[forbidden[forbidden < len(logits)]] = -np.inf
        return masked if masked.max() > -np.inf else logits

    def forbidden(self, state: bytes) -> Ids:
        """Return the tokens that would complete a string."""
        return np.concatenate((self._holding_ids, self._completing(state)))

    def completes(self, state: bytes, token: int) -> bool:
        piece = self._vocabulary.pieces[token]
        return token in self._holding or piece.startswith(self._rests(state))

    def _after(self, state: bytes, token: int) -> bytes:
        """Return the state after one more token."""
        text = state + self._vocabulary.pieces[token]
        for at, byte in enumerate(text):
            if byte in self._first_bytes and any(self._beginning_with(text[at:])):
                return text[at:]
        return b""

    def _find_rests(self, state: bytes) -> tuple[bytes, ...]:
        """Find what would complete a string that the text has begun."""
        return tuple(
            string[len(state) - at :]
            for at in range(len(state))
            for string in self._beginning_with(state[at:])
        )

    def _find_completing(self, state: bytes) -> Ids:
        rests = map(self._vocabulary.beginning_with, self._rests(state))
        return np.concatenate([np.empty(0, np.int64), *rests])

    def _beginning_with(self, text: bytes) -> Iterator[bytes]:
        """Yield the strings that begin with a text, and go on."""
        first = bisect_right(self._strings, text)
        strings = islice(self._strings, first, None)
        return takewhile(lambda string: string.startswith(text), strings)


class Ban:
    """The banned strings of one reply, and the state of its text."""

    def __init__(self, strings: BannedStrings) -> None:
        self._strings = strings
        self._state = b""

    def masked(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Mask the logits after `drafted`: -inf for tokens that would complete a string."""
        return self._strings.masked(logits, self._after(drafted))

    def forbidden(self, drafted: Sequence[int]) -> Ids:
        return self._strings.forbidden(self._after(drafted))

    def _after(self, drafted: Sequence[int]) -> bytes:
        return reduce(self._strings.after, drafted, self._state)

    def require_open(self, token: int) -> None:
        """Refuse a token that completes a string: it was drawn because no other was left."""
        if self._strings.completes(self._state, token):
            raise UsageError(
                "every token that could follow would complete a banned string: ban fewer "
                "strings, or such as the grammar and the tools of the request do not need"
            )

    def emit(self, tokens: Sequence[int], exempt: Container[int] = ()) -> None:
        """Follow tokens of the reply; those at `exempt` places may complete a string."""
        for place, token in enumerate(tokens):
            if place not in exempt:
                self.require_open(token)
            self._state = self._strings.after(self._state, token)


class Bans:
    """Makes the bans of replies; any thread may call it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._vocabulary: TokenBytes | None = None
        self._lists = lru_cache(MAX_LISTS)(self._banned_strings)

    def ban(self, strings: tuple[str, ...]) -> Ban | None:
        """Return the ban of a reply; None if no string is banned."""
        if not strings:
            return None
        with self._lock:
            return Ban(self._lists(strings))

    def _banned_strings(self, strings: tuple[str, ...]) -> BannedStrings:
        if self._vocabulary is None:
            self._vocabulary = TokenBytes(self._tokenizer)
        return BannedStrings(strings, self._vocabulary)


def spellings(string: str) -> set[bytes]:
    """Spell a string as it is, in small letters, in capitals, and with a capital first.

    ASCII letters are small in any case, as in `TokenBytes`.
    """
    cases = (string, string.lower(), string.upper(), string.capitalize())
    return {case.encode().lower() for case in cases}

"""DRY ("don't repeat yourself"): a penalty on tokens that would go on with a repetition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import Logits, Tokens
from localspec.core.sampling.parameter import MAX_COUNT
from localspec.core.sampling.parameters import Sampling

MAX_LOG = 88.7228391  # of a number in 32 bits: no power of the base is beyond
FLAT_BASE = 1.000001  # up to which powers stay small
MAX_PENALTY = 1e30

Spell = Callable[[int], bytes]


class Ending(NamedTuple):
    """The end of a text, as far as it matters here."""

    tokens: Tokens  # within the window
    repeats: NDArray[np.int32]  # of each place but the last: so many tokens up to it end the text
    unbroken: int  # tokens since the last one in which a breaker ends
    bytes: bytes  # the last ones, in which a breaker may have begun


class Dry:
    """The repetitions in one text, and the penalties that follow."""

    def __init__(self, sampling: Sampling, prompt: Tokens, spell: Spell) -> None:
        self._sampling, self._spell = sampling, spell
        self._window = MAX_COUNT if sampling.dry_window < 0 else sampling.dry_window
        self._breakers = [text.encode("utf-8", "replace") for text in sampling.dry_breakers]
        self._kept_bytes = max(map(len, self._breakers), default=1) - 1
        grows = sampling.dry_base > FLAT_BASE
        self._most = int(MAX_LOG / math.log(sampling.dry_base)) if grows else MAX_COUNT
        self._end = self._read(prompt[-self._window :])
        self._ahead: list[int] = []  # drafted tokens
        self._end_ahead = self._end  # after these

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the reply."""
        self._end, self._ahead = self._after(tokens), []
        self._end_ahead = self._end

    def apply(self, logits: Logits, drafted: Sequence[int]) -> None:
        """Penalise, in place, tokens that would prolong a repetition, `drafted` the last."""
        end, allowed = self._after(drafted), self._sampling.dry_allowed_length
        if end.unbroken < allowed:
            return
        places = np.flatnonzero(end.repeats >= allowed)
        lengths = np.minimum(np.minimum(end.repeats[places], end.unbroken), places + 1)
        places, lengths = places[lengths >= allowed], lengths[lengths >= allowed]
        tokens, which = np.unique(end.tokens[places + 1], return_inverse=True)
        longest = np.zeros(len(tokens), np.int64)
        np.maximum.at(longest, which, lengths)
        excess = np.minimum(longest - allowed, self._most).astype(np.float64)
        penalties = self._sampling.dry_multiplier * self._sampling.dry_base**excess
        free = np.array([self._breaks(token) for token in tokens.tolist()], np.bool_)
        logits[tokens[~free]] -= np.minimum(penalties[~free], MAX_PENALTY).astype(np.float32)

    def _after(self, drafted: Sequence[int]) -> Ending:
        """Return the end after drafted tokens; those that were there before are not read again."""
        count = len(self._ahead)
        if list(drafted[:count]) != self._ahead:
            count, self._end_ahead = 0, self._end
        for token in drafted[count:]:
            self._end_ahead = self._grown(self._end_ahead, token)
        self._ahead = list(drafted)
        return self._end_ahead

    def _grown(self, end: Ending, token: int) -> Ending:
        """A repetition goes on where the token before went on with it, and this one is the same."""
        longer = np.zeros(len(end.tokens), np.int32)
        longer[1:] = end.repeats
        longer += 1
        longer *= end.tokens == token
        tokens = np.append(end.tokens, np.int32(token))[-self._window :]
        read, before = end.bytes + self._spell(token), len(end.bytes)
        breaks = any(read.find(b, max(before - len(b) + 1, 0)) >= 0 for b in self._breakers)
        return Ending(
            tokens,
            longer[len(longer) - len(tokens) + 1 :],
            0 if breaks else end.unbroken + 1,
            read[max(len(read) - self._kept_bytes, 0) :],
        )

    def _read(self, text: Tokens) -> Ending:
        pieces = [self._spell(token) for token in text.tolist()]
        read, ends = b"".join(pieces), list(accumulate(map(len, pieces)))
        broken = max((read.rfind(b) + len(b) for b in self._breakers if b in read), default=0)
        newest = int(np.searchsorted(ends, broken)) if broken else -1
        tail = read[max(len(read) - self._kept_bytes, 0) :]
        return Ending(text, repeats(text), len(text) - 1 - newest, tail)

    def _breaks(self, token: int) -> bool:
        piece = self._spell(token)
        return any(breaker in piece for breaker in self._breakers)


def repeats(text: Tokens) -> NDArray[np.int32]:
    """Count, for each place but the last, the tokens up to it that also end the text.

    This is the Z-algorithm from the end: `left` to `right` is the stretch that was compared.
    """
    backwards = text[::-1].tolist()
    size = len(backwards)
    lengths = [0] * size
    left = right = 0
    for at in range(1, size):
        length = min(right - at, lengths[at - left]) if at < right else 0
        while at + length < size and backwards[length] == backwards[at + length]:
            length += 1
        if at + length > right:
            left, right = at, at + length
        lengths[at] = length
    return np.array(lengths[:0:-1], np.int32)

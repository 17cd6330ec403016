"""Tells who chats that a reply repeats itself without end, as those of small models do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.core.requests.job import Result

# So many tokens at least, and half of the reply, must be the same ones so many times: lines of
# lists and tables differ. A reply that ended by itself has an end token behind them.
MIN_TOKENS, MIN_TIMES = 192, 3
HINT = (
    "the reply repeats itself: a higher temperature, a repeat_penalty of 1.1 or a larger model may "
    "help"
)


def notices_of(result: Result) -> tuple[str, ...]:
    """Return the notices of a reply, with a hint if it repeats itself."""
    return (*result.notices, HINT) if is_repetitive(result.tokens) else result.notices


def is_repetitive(tokens: Sequence[int]) -> bool:
    """Whether the second half of a reply is a few tokens, repeated exactly."""
    length = max(MIN_TOKENS, len(tokens) // 2)
    if len(tokens) < length:
        return False
    half = np.array(tokens[-length:])
    periods = np.flatnonzero(half[-2 : -length // MIN_TIMES - 2 : -1] == half[-1]) + 1
    return any(np.array_equal(half[period:], half[:-period]) for period in periods)

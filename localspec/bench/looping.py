"""Detection of replies that end in a loop, in which a proposer is always right."""

from __future__ import annotations

import re
from collections.abc import Sequence

REPEATS = 3  # fewer may be meant
TOKENS = 20
CHARACTERS = 60  # a shorter tail may be a rule of dashes
NUMBERING = re.compile(r"^\s*\d+[.)]", re.MULTILINE)


def loops(text: str, tokens: Sequence[int]) -> bool:
    """Return whether the end repeats itself at least three times, in 20 tokens or 60 characters.

    The numbers of a numbered list do not count as a difference.
    """
    return _repeats(tokens, TOKENS) or _repeats(NUMBERING.sub("0.", text).rstrip(), CHARACTERS)


def _repeats(text: Sequence[object], least: int) -> bool:
    return any(
        _repeating(text, period) >= max(REPEATS * period, least)
        for period in range(1, len(text) // REPEATS + 1)
    )


def _repeating(text: Sequence[object], period: int) -> int:
    """Measure the stretch at the end that equals what is one period before it, and that period."""
    at = len(text) - 1
    while at >= period and text[at] == text[at - period]:
        at -= 1
    return len(text) - 1 - at + period

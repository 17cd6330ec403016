"""How many prompt tokens to read beside replies, and how many rounds to run at once.

Both are learned from measured times.
"""

from __future__ import annotations

import math

MAX_GAP = 0.5  # seconds between two pieces of a reply while a prompt is read, by default
AIM = 0.9  # of that gap: a round takes now more, now less
LEAST = 16  # tokens of a prompt that are read in any case
FIRST = 128  # before anything was measured
MOST = 1 << 16
WEIGHT = 0.3  # of a new measurement
HALF_STEP = math.sqrt(2)  # between sizes, which are powers of two
STALE = 128  # rounds after which a size is measured anew
# Standard deviations of a token's time: by size, for each token before it, and by chance.
OWN, FARTHER, CHANCE = 0.2, 0.3 / 1000, 0.3
AT_ONCE_SECONDS, AT_ONCE = 0.05, 8  # and rounds at most before tokens are published


class Pace:
    """Chooses the largest piece that holds replies up for no longer than the gap allows.

    Between two pieces the replies have a round, which the newcomer waits for: with pieces of 128
    tokens the first token beside four replies came a quarter later than from whole prompts.
    """

    def __init__(self, max_gap: float = MAX_GAP) -> None:
        self._gap = AIM * max_gap
        self._round = 0.0  # seconds without prompts
        self._per_token: dict[int, float] = {}  # seconds that each adds to a round, by size
        self._farther = 0.0  # and for each token before it
        self._seen: dict[int, int] = {}  # the round of the latest measurement
        self._rounds = 0

    def allowance(self, before: int = 0) -> int:
        """Return how much of a prompt a round with replies may read, behind so many tokens."""
        if not self._per_token:
            return FIRST
        found = max(self._within(size, before) for size in self._per_token)
        if not found:
            found = min(self._fitting(min(self._per_token), before), FIRST)
        return max(LEAST, int(found) // LEAST * LEAST)

    def _within(self, size: int, before: int) -> float:
        """Return the largest piece of about this size that fits; zero if none does.

        Up to twice the size are tried where that was not measured: it may be as fast.
        """
        largest = size * HALF_STEP if 2 * size in self._per_token else min(2.0 * size, MOST)
        fitting = min(self._fitting(size, before), largest)
        return fitting if fitting >= size / HALF_STEP else 0.0

    def _fitting(self, size: int, before: int) -> float:
        """Solve for the tokens that take what the gap leaves, each like one of such a piece."""
        left = max(self._gap - self._round, 0.0)
        first = self._per_token[size] + self._farther * before
        return 2 * left / (first + math.sqrt(first**2 + 2 * self._farther * left))

    def at_once(self, rows: int) -> int:
        """Return how many rounds may be run before anybody hears of their tokens.

        Beside other streams, the server writes a stream half as often.
        """
        if not self._round:
            return 1
        seconds = min(AT_ONCE_SECONDS * min(rows, 2), self._gap)
        return max(1, min(int(seconds / self._round), AT_ONCE))

    def note(self, read: int, seconds: float, before: float = 0.0) -> None:
        """Learn the seconds of a round that read tokens of prompts, behind so many on average."""
        self._rounds += 1
        if not read:
            self._round = nearer(self._round, seconds)
        elif read >= LEAST:
            size = 1 << round(math.log2(read))
            # At least half of the round: its time without a prompt is known less well.
            added = max(seconds - self._round, seconds / 2)
            self._learn(size, added / read, before + read / 2)
            self._seen[size] = self._rounds
            self._forget()

    def _learn(self, size: int, seconds: float, before: float) -> None:
        """Share a surprise: the more tokens were before, the more is due to their number."""
        if size not in self._per_token:
            self._per_token[size] = max(seconds - self._farther * before, seconds / 4)
            return
        known = self._per_token[size]
        expected = known + self._farther * before
        missed = min(seconds, 2 * expected) - expected
        own, farther = OWN**2, (FARTHER * before) ** 2
        share = missed / (own + farther + CHANCE**2)
        self._per_token[size] = max(known + own * share, known / 2)
        self._farther = max(self._farther + FARTHER**2 * before * share, 0.0)

    def _forget(self) -> None:
        for size in [size for size, at in self._seen.items() if self._rounds - at > STALE]:
            del self._seen[size], self._per_token[size]


def nearer(known: float, measured: float) -> float:
    """Move a known time towards a measured one, capped at double: one stall counts little."""
    if not known:
        return measured
    return known + WEIGHT * (min(measured, 2 * known) - known)

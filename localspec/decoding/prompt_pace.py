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
AT_ONCE_SECONDS, AT_ONCE = 0.04, 8  # and rounds at most before tokens are published


class Pace:
    """Chooses the largest piece that holds replies up for no longer than the gap allows.

    Between two pieces the replies have a round, which the newcomer waits for: with pieces of 128
    tokens the first token beside four replies came a quarter later than from whole prompts.
    """

    def __init__(self, max_gap: float = MAX_GAP) -> None:
        self._gap = AIM * max_gap
        self._round = 0.0  # seconds without prompts
        self._per_token: dict[int, float] = {}  # seconds that each adds to a round, by size
        self._seen: dict[int, int] = {}  # the round of the latest measurement
        self._rounds = 0

    @property
    def allowance(self) -> int:
        """Return the tokens of prompts that a round with replies may read."""
        if not self._per_token:
            return FIRST
        left = max(self._gap - self._round, 0.0)
        found = max((self._within(size, left) for size in self._per_token), default=0.0)
        if not found:
            found = min(left / self._per_token[min(self._per_token)], FIRST)
        return max(LEAST, int(found) // LEAST * LEAST)

    def _within(self, size: int, left: float) -> float:
        """Return the largest piece of about this size that fits; zero if none does.

        Up to twice the largest one measured are tried: wider ones are not known to be as fast.
        """
        largest = min(2.0 * size, MOST) if size == max(self._per_token) else size * HALF_STEP
        fitting = min(left / self._per_token[size], largest)
        return fitting if fitting >= size / HALF_STEP else 0.0

    def at_once(self, rows: int) -> int:
        """Return how many rounds may be run before anybody hears of their tokens.

        Beside other streams, the server writes a stream half as often.
        """
        if not self._round:
            return 1
        seconds = min(AT_ONCE_SECONDS * min(rows, 2), self._gap)
        return max(1, min(int(seconds / self._round), AT_ONCE))

    def note(self, read: int, seconds: float) -> None:
        """Learn the seconds of a round that read so many tokens of prompts."""
        self._rounds += 1
        if not read:
            self._round = nearer(self._round, seconds)
        elif read >= LEAST:
            size = 1 << round(math.log2(read))
            # At least half of the round: its time without a prompt is known less well.
            added = max(seconds - self._round, seconds / 2)
            self._per_token[size] = nearer(self._per_token.get(size, 0.0), added / read)
            self._seen[size] = self._rounds
            self._forget()

    def _forget(self) -> None:
        for size in [size for size, at in self._seen.items() if self._rounds - at > STALE]:
            del self._seen[size], self._per_token[size]


def nearer(known: float, measured: float) -> float:
    """Move a known time towards a measured one, capped at double: one stall counts little."""
    if not known:
        return measured
    return known + WEIGHT * (min(measured, 2 * known) - known)

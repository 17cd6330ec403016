"""How many prompt tokens to read beside replies, and how many rounds to run at once.

Both are learned from measured times.
"""

from __future__ import annotations

import math

MAX_GAP = 0.5  # seconds between two pieces of a reply while a prompt is read, by default
GAP_SHARE = 0.9  # of that gap: a round takes now more, now less
MIN_PIECE = 16  # tokens of a prompt that are read in any case
FIRST_PIECE = 128  # before anything was measured
MAX_PIECE = 1 << 16
MIN_SECONDS = 1e-9  # a clock may stand still meanwhile
LATEST_WEIGHT = 0.3  # of a new measurement
HALF_STEP = math.sqrt(2)  # between sizes, which are powers of two
STALE_ROUNDS = 128  # rounds after which a size is measured anew
# Standard deviations of a token's time: by size, for each token before it, and by chance.
OWN_DEVIATION, DISTANCE_DEVIATION, CHANCE_DEVIATION = 0.2, 0.3 / 1000, 0.3
MAX_SECONDS_AT_ONCE, MAX_ROUNDS_AT_ONCE = 0.05, 8  # and rounds at most before tokens are published


class Pace:
    """Chooses the largest piece that holds replies up for no longer than the gap allows.

    Between two pieces the replies have a round, which the newcomer waits for: with pieces of 128
    tokens the first token beside four replies came a quarter later than from whole prompts.
    """

    def __init__(self, max_gap: float) -> None:
        self._gap = GAP_SHARE * max_gap
        self._round = 0.0  # seconds without prompts
        self._per_token: dict[int, float] = {}  # seconds that each adds to a round, by size
        self._farther = 0.0  # and for each token before it
        self._seen: dict[int, int] = {}  # the round of the latest measurement
        self._rounds = 0

    @property
    def per_token(self) -> float:
        """Return the seconds of a prompt token in pieces of the best size; 0: unknown."""
        return min(self._per_token.values(), default=0.0)

    def allowance(self, before: int = 0) -> int:
        """Return how much of a prompt a round with replies may read, after so many tokens."""
        if not self._per_token:
            return FIRST_PIECE
        piece = max(self._within(size, before) for size in self._per_token)
        if not piece:
            piece = min(self._fitting(min(self._per_token), before), FIRST_PIECE)
        return max(MIN_PIECE, int(piece) // MIN_PIECE * MIN_PIECE)

    def _within(self, size: int, before: int) -> float:
        """Return the largest piece of about this size that fits; zero if none does.

        Up to twice the size are tried where that was not measured: it may be as fast.
        """
        largest = size * HALF_STEP if 2 * size in self._per_token else min(2.0 * size, MAX_PIECE)
        fitting = min(self._fitting(size, before), largest)
        return fitting if fitting >= size / HALF_STEP else 0.0

    def _fitting(self, size: int, before: int) -> float:
        """Solve for the tokens that fill the gap, if each takes as long as in such a piece."""
        seconds = max(self._gap - self._round, 0.0)
        first = self._per_token[size] + self._farther * before
        return 2 * seconds / (first + math.sqrt(first**2 + 2 * self._farther * seconds))

    def at_once(self, rows: int) -> int:
        """Return how many rounds may be run before their tokens are published.

        Beside other streams, the server writes a stream half as often.
        """
        if not self._round:
            return 1
        seconds = min(MAX_SECONDS_AT_ONCE * min(rows, 2), self._gap)
        return max(1, min(int(seconds / self._round), MAX_ROUNDS_AT_ONCE))

    def note(self, read: int, seconds: float, before: float = 0.0) -> None:
        """Learn the seconds of a round that read tokens of prompts, after so many on average."""
        self._rounds += 1
        if not read:
            self._round = nearer(self._round, seconds)
        elif read >= MIN_PIECE:
            size = 1 << round(math.log2(read))
            # At least half of the round: its time without a prompt is known less well.
            added = max(seconds - self._round, seconds / 2, MIN_SECONDS)
            self._learn(size, added / read, before + read / 2)
            self._seen[size] = self._rounds
            self._forget()

    def _learn(self, size: int, seconds: float, before: float) -> None:
        """Share a surprise: the more tokens were before, the more is due to their number."""
        if size not in self._per_token:
            self._per_token[size] = max(seconds - self._farther * before, seconds / 4)
            return
        per_token = self._per_token[size]
        expected = per_token + self._farther * before
        missed = min(seconds, 2 * expected) - expected
        own, farther = OWN_DEVIATION**2, (DISTANCE_DEVIATION * before) ** 2
        share = missed / (own + farther + CHANCE_DEVIATION**2)
        self._per_token[size] = max(per_token + own * share, per_token / 2)
        self._farther = max(self._farther + DISTANCE_DEVIATION**2 * before * share, 0.0)

    def _forget(self) -> None:
        for size in [size for size, at in self._seen.items() if self._rounds - at > STALE_ROUNDS]:
            del self._seen[size], self._per_token[size]


def nearer(estimate: float, measured: float) -> float:
    """Move an estimate towards a measured one, capped at double: one stall counts little."""
    if not estimate:
        return measured
    return estimate + LATEST_WEIGHT * (min(measured, 2 * estimate) - estimate)

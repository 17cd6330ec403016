"""How much of a prompt is read in a round that others wait for."""

from __future__ import annotations

HELD_SECONDS = 0.1  # that a round with prompts in it may take
TIMES = 2.0  # as long as other rounds, where those are slow
LEAST = 16  # tokens of a prompt that are read in any case
FIRST = 64  # before anything was measured
WEIGHT = 0.3  # of a new measurement


class Pace:
    """Learns from what rounds take; a round's other work counts as a part of reading."""

    def __init__(self) -> None:
        self._round = 0.0  # seconds without prompts
        self._per_token = 0.0  # seconds of a round by the tokens of prompts in it

    @property
    def allowance(self) -> int:
        """Tokens of prompts that a round with replies in it may read."""
        if not self._per_token:
            return FIRST
        return max(LEAST, int(max(HELD_SECONDS, TIMES * self._round) / self._per_token))

    def note(self, read: int, seconds: float) -> None:
        """A round that read so many tokens of prompts took so long."""
        if not read:
            self._round = nearer(self._round, seconds)
        elif read >= LEAST:
            self._per_token = nearer(self._per_token, max(seconds / read, 1e-7))


def nearer(known: float, measured: float) -> float:
    """One stall must not count for long: what is measured counts up to double."""
    if not known:
        return measured
    return known + WEIGHT * (min(measured, 2 * known) - known)

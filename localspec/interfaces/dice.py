"""Random numbers of a text: each position has its own, for each use."""

from __future__ import annotations

from dataclasses import dataclass

# The uses of a random number. Every use at every position has its own, so that no choice disturbs
# another: a text does not depend on the draft length or the proposer.
TARGET, ACCEPT, DRAFT = range(3)
LANES = 3

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_COINS = 0xD1B54A32D192ED03  # sets the stream of coins apart from that of the lanes


@dataclass(frozen=True, slots=True)
class Dice:
    """Uniform random numbers without a state: splitmix64 of seed, position and lane."""

    seed: int

    def uniform(self, position: int, lane: int) -> float:
        counter = _mix(self.seed + _GAMMA) + (position * LANES + lane + 1) * _GAMMA
        return (_mix(counter) >> 11) * 2.0**-53

    def coin(self, position: int) -> float:
        """Return one more random number of a position: a fourth lane would change every text."""
        counter = _mix(self.seed ^ _COINS) + (position + 1) * _GAMMA
        return (_mix(counter) >> 11) * 2.0**-53


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)

"""Random numbers of a text: each token has its own at each position."""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1
_GAMMA = 0x9E3779B97F4A7C15
_COINS = 0xD1B54A32D192ED03  # sets the stream of coins apart from those of tokens
# Of the mixing of tokens' numbers, in 32 bits, which a device can do, too.
SPREAD, FIRST, SECOND = 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35

Keys = tuple[
    int, int, int, int
]  # of 32 bits: two for the upper half of a number, two for the lower


@dataclass(frozen=True, slots=True)
class Dice:
    """Random numbers without a state: a function of seed, position and token."""

    seed: int

    def keys(self, position: int) -> Keys:
        """Return what the numbers of a position's tokens are made from."""
        counter = _mix(self.seed + _GAMMA) + (2 * position + 1) * _GAMMA
        upper, lower = _mix(counter), _mix(counter + _GAMMA)
        return upper >> 32, upper & _LOW, lower >> 32, lower & _LOW

    def coin(self, position: int) -> float:
        """Return one more uniform random number of a position."""
        counter = _mix(self.seed ^ _COINS) + (position + 1) * _GAMMA
        return (_mix(counter) >> 11) * 2.0**-53


def wait(keys: Keys, token: int) -> float:
    """Return how long a token waits: an exponential random number."""
    bits = (_mixed(token, *keys[:2]) << 20) | (_mixed(token, *keys[2:]) >> 12)
    return -log1p(-((bits + 0.5) * 2.0**-52))


def waits(keys: Keys, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how long each token waits."""
    upper, lower = mixed(tokens, *keys[:2]), mixed(tokens, *keys[2:])
    bits = (upper.astype(np.uint64) << np.uint64(20)) | (lower >> np.uint32(12))
    return -np.log1p(-((bits.astype(np.float64) + 0.5) * 2.0**-52))


def mixed(tokens: NDArray[np.integer], first: int, second: int) -> NDArray[np.uint32]:
    """Mix 32 bits of each token with two keys."""
    x = tokens.astype(np.uint32)
    x *= np.uint32(SPREAD)
    x += np.uint32(first)
    x ^= x >> np.uint32(16)
    x *= np.uint32(FIRST)
    x ^= x >> np.uint32(13)
    x ^= np.uint32(second)
    x *= np.uint32(SECOND)
    x ^= x >> np.uint32(16)
    return x


def _mixed(token: int, first: int, second: int) -> int:
    """Do the same with one token."""
    x = (token * SPREAD + first) & _LOW
    x = ((x ^ (x >> 16)) * FIRST) & _LOW
    x = ((x ^ (x >> 13) ^ second) * SECOND) & _LOW
    return x ^ (x >> 16)


def _mix(value: int) -> int:
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)

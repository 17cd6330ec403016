"""The cost of a forward on several kinds of hardware, by the tokens it verifies at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

PLAIN = 0.02  # seconds of a forward of one token

# In units of a forward of one token; between the points linear, beyond them as steep as before.
CURVES: Mapping[str, Mapping[int, float]] = {
    # A large GPU waits for its memory until about eight tokens fill it with work.
    "gpu": {1: 1.0, 8: 1.06, 16: 1.5, 32: 2.6},
    # Quantised matrix products on Apple silicon before mlx 0.32: seven tokens took 5.3 times one.
    "old metal": {1: 1.0, 7: 5.3, 8: 5.4, 16: 6.0},
    # A mixture of experts: each token wakes up others, until all are awake.
    "experts": {1: 1.0, 2: 1.55, 3: 1.6, 4: 2.2, 5: 2.25, 8: 3.0, 16: 3.4},
    # Two AVX-512 cores, SmolLM2 in Q8_0 and Q4_K_M.
    "cpu q8_0": {1: 1.0, 2: 1.75, 4: 2.4, 8: 3.1, 16: 4.8},
    "cpu q4_k_m": {1: 1.0, 2: 1.4, 4: 1.8, 8: 3.0, 16: 5.0},
}
# The same up to long drafts.
WIDE_CURVES: Mapping[str, Mapping[int, float]] = {
    # Qwen2.5-Coder-1.5B in Q4_K_M on two cores of an AMD EPYC: best are five tokens, or very many.
    "cpu wide": {1: 1.0, 2: 1.69, 3: 2.19, 5: 2.67, 9: 6.15, 17: 10.2, 129: 58.0},
    # The same on an NVIDIA card: ever cheaper, in steps.
    "gpu wide": {1: 1.0, 8: 2.2, 9: 2.6, 16: 2.8, 32: 3.5, 64: 4.9, 128: 7.5, 256: 12.1},
}
# What drafting takes of a plain forward: each token of a draft model or a head, a block as a whole.
DRAFTING: Mapping[str, Sequence[float]] = {
    "draft-model": (0.0, 0.05, 0.1, 0.25, 0.5),
    "head": (0.03, 0.06, 0.12),
    "block": (0.06, 0.12, 0.25),
}
# What reading takes of what a forward of so many tokens takes more than one: a head has one layer
# or a few, and reads without the output matrix that it drafts with.
READING: Mapping[str, float] = {"head": 0.03, "block": 0.06}


def seconds(curve: Mapping[int, float], tokens: int) -> float:
    """Return the seconds of a forward: linear between points, beyond them as steep as before."""
    points = list(curve.items())
    low, high = next((pair for pair in pairwise(points) if tokens <= pair[1][0]), points[-2:])
    slope = (high[1] - low[1]) / (high[0] - low[0])
    return PLAIN * (low[1] + slope * (tokens - low[0]))

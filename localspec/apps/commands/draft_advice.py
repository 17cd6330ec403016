"""Describes what verifying several tokens at once costs, and how long drafts should hence be."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from localspec.core.proposers.descriptions import in_words
from localspec.interfaces.costs import Curve
from localspec.running.runtime.calibration import Calibration, Points

SIZES = (2, 4, 8, 16)  # tokens verified at once
RATES = (0.6, 0.8, 0.9)  # of draft tokens that are right
MIN_GAIN = 1.02  # times as fast


def describe(calibration: Calibration) -> Iterator[str]:
    """Describe the price of some widths, then the best drafts of each proposer."""
    busy = " (busy)" if calibration.busy else ""  # other programs were, so it may be wrong
    yield f"{price(calibration.target)}{busy}"
    yield "drafts from the text itself: " + advice(calibration.target)
    for by, points in calibration.drafting.items():
        yield f"{in_words([by])}: {advice(calibration.target, points)}"


def price(target: Points) -> str:
    """Describe what widths cost, as multiples of one token."""
    sizes = [size for size in SIZES if size <= max(target)]
    curve, plain = Curve(target), target[min(target)]
    prices = [f"{size} tokens {curve.at(size) / plain:.1f}" for size in sizes]
    return f"checking {', '.join(prices)} times the time of one"


def advice(target: Points, drafting: Points | None = None) -> str:
    """Describe the best length of drafts for some shares of right tokens."""
    lengths = [(right, *best(target, right, drafting)) for right in RATES]
    paying = [
        f"{n} tokens if {right:.0%} of them are right ({gain:.1f} times as fast)"
        for right, n, gain in lengths
        if n
    ]
    return "; ".join(paying) or "none pay"


def best(target: Points, right: float, drafting: Points | None = None) -> tuple[int, float]:
    """Find the length of drafts that is fastest, and how many times as fast as none it is."""
    curve, longest = Curve(target), max(target) - 1
    plain, costs = curve.at(1), drafting_cost(drafting)
    gains = {0: 1.0}
    for length in range(1, longest + 1):
        tokens = (1 - right ** (length + 1)) / (1 - right)
        gains[length] = tokens * plain / (curve.at(length + 1) + costs(length))
    length = max(gains, key=gains.__getitem__)
    return (length, gains[length]) if gains[length] >= MIN_GAIN else (0, 1.0)


def drafting_cost(points: Points | None) -> Callable[[int], float]:
    """Return the seconds of a draft by its length."""
    if not points:
        return lambda length: 0.0
    if len(points) == 1:
        [(size, seconds)] = points.items()
        return lambda length: seconds * length / size
    return Curve(points).at

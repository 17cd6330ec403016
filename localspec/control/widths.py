"""What checking several tokens at once costs here, and what that means for drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from localspec.control.calibration import Calibration, Points
from localspec.control.costs import Curve

TOLD = (2, 4, 8, 16)  # tokens checked at once
RIGHT = (0.6, 0.8, 0.9)  # of the draft tokens
PAYS = 1.02  # times as fast, at least


def told(calibration: Calibration) -> Iterator[str]:
    """Tell the price of some widths, and the best drafts by how many of their tokens are right."""
    yield price(calibration.target)
    yield "drafts that cost nothing: " + advice(calibration.target)
    for by, points in calibration.drafting.items():
        yield f"drafts by {by}: {advice(calibration.target, points)}"


def price(target: Points) -> str:
    """Tell what widths cost, as multiples of one token."""
    sizes = [size for size in TOLD if size <= max(target)]
    curve, plain = Curve(target), target[min(target)]
    each = [f"{size} tokens {curve.at(size) / plain:.1f}" for size in sizes]
    return f"checking {', '.join(each)} times the time of one"


def advice(target: Points, drafting: Points | None = None) -> str:
    """Tell the best length of drafts for some shares of right tokens."""
    found = [(right, *best(target, right, drafting)) for right in RIGHT]
    paying = [f"{n} if {right:.0%} are right ({gain:.1f} times)" for right, n, gain in found if n]
    return "; ".join(paying) or "none pay"


def best(target: Points, right: float, drafting: Points | None = None) -> tuple[int, float]:
    """Find the length of drafts that is fastest, and how many times as fast as none it is."""
    curve, longest = Curve(target), max(target) - 1
    plain, costs = curve.at(1), drafted(drafting)
    gains = {0: 1.0}
    for length in range(1, longest + 1):
        tokens = (1 - right ** (length + 1)) / (1 - right)
        gains[length] = tokens * plain / (curve.at(length + 1) + costs(length))
    found = max(gains, key=gains.__getitem__)
    return (found, gains[found]) if gains[found] >= PAYS else (0, 1.0)


def drafted(points: Points | None) -> Callable[[int], float]:
    if not points:
        return lambda length: 0.0
    if len(points) == 1:
        [(size, seconds)] = points.items()
        return lambda length: seconds * length / size
    return Curve(points).at

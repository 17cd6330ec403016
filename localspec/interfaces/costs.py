"""Cost curves: seconds by size, updated by every round, interpolated between sizes."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from localspec.interfaces.cost_scales import Scales

GAIN = 0.1  # the part of a surprise that moves its own size
CLAMP = 1.25  # a single surprise counts as this factor at most
FAR_APART = 2 / 3  # of a size, from which on another is near it
WIDER = 1.6  # by which the clamp gives way each time that it is hit on the same side again


@dataclass(slots=True)
class Point:
    seconds: float  # before scaling
    streak: int = 0  # surprises in a row that were clamped: above 0 slower, below 0 faster


class Curve:
    """Seconds by size, linear between the sizes that were measured.

    A surprise is shared between its size and the scale of the whole curve. One hiccup of the
    machine hardly moves it, several in a row do.
    """

    def __init__(self, points: Mapping[int, float], scales: Scales | None = None) -> None:
        assert len(points) > 1, "a curve needs two points to begin with"
        self._scales = scales or Scales()
        self._sizes = sorted(points)
        rising = accumulate((points[size] for size in self._sizes), max)
        self._points = [Point(seconds) for seconds in rising]
        self._line: list[float] = []  # seconds of every size from 0, before scaling
        self._draw(range(len(points) - 1), self._sizes[-1])

    @property
    def scale(self) -> float:
        """Return the latest time of everything, relative to when it was measured."""
        return math.exp(self._scales.everything)

    @property
    def doubt(self) -> float:
        """Return the variance of the logarithm of what plain forwards take."""
        return self._scales.variance

    def at(self, size: int) -> float:
        """Return the seconds that this size takes."""
        self._reach(size)
        return self.scale * self._line[size]

    def stretch(self, first: int, last: int, plain: int | None = None) -> list[float]:
        """Return the seconds that each size from `first` to `last` takes.

        Forwards of more than `plain` tokens are wide, and take no less than one of these.
        """
        self._reach(last)
        scale, line = self.scale, self._line
        if plain is None:
            return [scale * seconds for seconds in line[first : last + 1]]
        least, wide = scale * line[plain], scale * math.exp(self._scales.wide)
        seconds = [scale * seconds for seconds in line[first : plain + 1]]
        return seconds + [max(wide * s, least) for s in line[max(first, plain + 1) : last + 1]]

    def note(self, size: int, seconds: float, *, wide: bool = False) -> None:
        """Learn that this size took so long."""
        if not 0 < seconds < math.inf:
            return
        widening = math.exp(self._scales.wide) if wide else 1.0
        expected = max(widening * self.at(size), 1e-9)
        at = self._place(size)
        point = self._points[at]
        surprise = clamp(point, seconds / expected)
        self._scales.note(math.log(surprise), wide=wide)
        point.seconds *= surprise**GAIN
        low, high = self._straighten(at)
        self._draw(range(max(low - 1, 0), min(high + 1, len(self._points) - 1)))

    def stretch_by(self, factor: float) -> None:
        """Let everything take that many times as long."""
        self._scales.everything += math.log(factor)

    def copy(self) -> Curve:
        """Begin a curve with what this one knows, for rounds of more rows."""
        return Curve(self.points(), self._scales.copied())

    def points(self) -> dict[int, float]:
        scale = self.scale
        scaled = [point.seconds * scale for point in self._points]
        return dict(zip(self._sizes, scaled, strict=True))

    def _place(self, size: int) -> int:
        """Find the point of a size, or insert one; large sizes that differ little share one."""
        at, step = bisect_left(self._sizes, size), 1 << max(size.bit_length() - 5, 0)
        for near in range(max(at - 1, 0), min(at + 1, len(self._sizes))):
            if 2 * abs(self._sizes[near] - size) <= step:
                return near
        self._reach(size)
        self._points.insert(at, Point(max(self._line[size], 1e-9)))
        self._sizes.insert(at, size)
        return at

    def _straighten(self, at: int) -> tuple[int, int]:
        """Keep the curve rising, the newest point unchanged; return the range that changed."""
        points, seconds = self._points, self._points[at].seconds
        low = high = at
        while low and points[low - 1].seconds > seconds:
            low -= 1
            points[low].seconds = seconds
        while high + 1 < len(points) and points[high + 1].seconds < seconds:
            high += 1
            points[high].seconds = seconds
        return low, high

    def _reach(self, size: int) -> None:
        if size >= len(self._line):
            self._draw(range(len(self._points) - 2, len(self._points) - 1), size)

    def _draw(self, stretches: Iterable[int], reach: int = 0) -> None:
        """Draw the line from some points to the next; before the first and beyond the last, too."""
        for at in stretches:
            low, high = self._sizes[at : at + 2]
            start = self._points[at].seconds
            step = self._slope(at, at + 1)
            begin = 0 if at == 0 else low
            self._line[begin : high + 1] = [
                start + step * (size - low) for size in range(begin, high + 1)
            ]
            if at + 2 == len(self._sizes):
                self._draw_beyond(max(reach, len(self._line) - 1))

    def _draw_beyond(self, end: int) -> None:
        """Go on after the last size, as steeply as between it and one that is not near it.

        Two that are near may be apart by a step: 16 tokens take 0.8 of 17 where they are multiplied
        in blocks of 16.
        """
        last = len(self._sizes) - 1
        high = self._sizes[last]
        before = max(bisect_right(self._sizes, FAR_APART * high) - 1, 0)
        low, start = self._sizes[before], self._points[before].seconds
        step = self._slope(before, last)
        self._line[high + 1 :] = [start + step * (size - low) for size in range(high + 1, end + 1)]

    def _slope(self, one: int, other: int) -> float:
        """Return the seconds of each size more between two points."""
        seconds = self._points[other].seconds - self._points[one].seconds
        return seconds / (self._sizes[other] - self._sizes[one])


def clamp(point: Point, surprise: float) -> float:
    """Clamp a surprise; several in a row widen the clamp."""
    most: float = CLAMP * WIDER ** abs(point.streak)
    if surprise > most:
        point.streak = max(point.streak, 0) + 1
    elif surprise < 1 / most:
        point.streak = min(point.streak, 0) - 1
    else:
        point.streak = 0
    return min(max(surprise, 1 / most), most)


# Before anything was measured: each further token costs a little of the first one's time.
UNMEASURED: Mapping[int, float] = {1: 0.01, 2: 0.0115, 9: 0.022}
READING = 16  # tokens that a proposer reads in the time it takes to draft one
FAR = 512  # tokens; of more, each takes as long


class Attention(NamedTuple):
    """Seconds for each token that a row holds already: once a row, and for each of its tokens.

    After 4,000 tokens a forward of eight may take six times as long as one, where it takes four
    times as long after none.
    """

    row: float = 0.0
    token: float = 0.0


class Batch(NamedTuple):
    """The rows of a round, before it is known how many draft tokens each verifies."""

    rows: int
    held: int = 0  # tokens that the rows hold together
    seen: float = 0.0  # tokens that each new token is compared with, on average
    beside: int = 0  # tokens of prompts that are read in the same batch
    begins: bool = False  # these are of the row's own prompt, whose reply begins with its draft


NO_ATTENTION = Attention()


class Costs:
    """Costs of a target by rows and tokens of a batch, and of its proposers by draft length."""

    def __init__(
        self,
        target: Mapping[int, float] = UNMEASURED,
        drafting: Mapping[str, Mapping[int, float]] | None = None,
        reading: Mapping[str, float] | None = None,  # of each token
        attention: Attention = NO_ATTENTION,
    ) -> None:
        self._target = {1: Curve(target)}
        self._calibrated = self.target(1).at(1)
        self._attention = attention
        self._latest: list[Curve] = []  # of drafting and reading, learned from in this round
        self.plain_rounds = 0  # of one row that were learned from, or runs of them
        self._drafting = {(by, 1): Curve(points) for by, points in (drafting or {}).items()}
        self._reading = {by: Curve({1: cost, 2: 2 * cost}) for by, cost in (reading or {}).items()}

    @property
    def slowdown(self) -> float:
        """Return the latest time of a plain round, relative to when it was calibrated."""
        return self.target(1).at(1) / self._calibrated

    def at(self, batch: Batch, tokens: int) -> float:
        """Return the seconds of a round without drafting, by the tokens of its rows together."""
        [seconds] = self.stretch(batch, tokens, tokens)
        return seconds

    def stretch(self, batch: Batch, first: int, last: int) -> list[float]:
        """Return the seconds of rounds of `first` to `last` tokens."""
        curve = self.target(batch.rows)
        if self._attention is NO_ATTENTION:
            return curve.stretch(first, last, batch.rows)
        row = curve.scale * self._attention.row * batch.held
        token = curve.scale * self._attention.token * batch.seen
        by_tokens = enumerate(curve.stretch(first, last, batch.rows), start=first)
        return [seconds + row + token * tokens for tokens, seconds in by_tokens]

    def note(self, batch: Batch, tokens: int, seconds: float) -> None:
        """Learn how long a round took, drafting apart."""
        curve, expected = self.target(batch.rows), self.at(batch, tokens)
        [without] = curve.stretch(tokens, tokens, batch.rows)
        if without < expected and 0 < seconds < math.inf:
            surprise = min(max(seconds / expected, 1 / CLAMP), CLAMP)
            factor = surprise ** (GAIN * (1 - without / expected))
            self._attention = Attention(*(factor * part for part in self._attention))
        plain = curve.at(1)
        curve.note(tokens, seconds * without / expected, wide=tokens > batch.rows > 1)
        if batch.rows == 1:
            self.plain_rounds += tokens == 1
            self._stretch_drafting(curve.at(1) / plain)
        self._latest.clear()

    def _stretch_drafting(self, factor: float) -> None:
        """Let drafting follow the machine: who drafts nothing would seem cheaper on a busy one."""
        for curve in (*self._drafting.values(), *self._reading.values()):
            if curve not in self._latest:
                curve.stretch_by(factor)

    def dearness(self, batch: Batch) -> float:
        """Return what a draft token for each row takes, as a part of a round without."""
        return self.at(batch, 2 * batch.rows) / self.at(batch, batch.rows) - 1

    def target(self, rows: int) -> Curve:
        """Return the seconds of a round by its tokens, if nothing was held and nothing drafted."""
        key = _about(rows)
        if key not in self._target:
            nearest = max(rows for rows in self._target if rows < key)
            self._target[key] = self._target[nearest].copy()
        return self._target[key]

    def drafting(self, by: str, rows: int) -> Curve | None:
        """Return the seconds of drafting for so many rows, by depth; None if never measured."""
        key = _about(rows)
        if (by, key) not in self._drafting:
            near = [rows for name, rows in self._drafting if name == by and rows < key]
            if not near:
                return None
            self._drafting[by, key] = Curve(self._drafting[by, max(near)].points())
        return self._drafting[by, key]

    def reading(self, by: str, tokens: int) -> float:
        """Return the seconds for tokens that a proposer has missed and must read first."""
        if not tokens:
            return 0.0
        if by not in self._reading:
            curve = self._drafting.get((by, 1))
            return (curve.at(2) - curve.at(1)) / READING * tokens if curve else 0.0
        size = min(tokens, FAR)
        return self._reading[by].at(size) * tokens / size

    def note_drafting(self, by: str, rows: int, depth: int, seconds: float, missed: int) -> None:
        """Learn the seconds of a draft that had `missed` tokens to read first.

        To find none takes as long as one token does: beside nothing any time would be a surprise
        without bounds, which made the whole curve grow with each look.
        """
        curve, drafted, depth = self.drafting(by, rows), depth > 0, max(depth, 1)
        if curve is None and not missed:
            self._drafting[by, 1] = Curve({1: seconds / depth, max(depth, 2): seconds})
        elif curve and missed:
            if by not in self._reading:
                self._reading[by] = Curve({n: self.reading(by, n) for n in (1, 2)})
            size = min(missed, FAR)
            reading = seconds - curve.at(depth) if drafted else seconds
            self._latest.append(self._reading[by])
            self._reading[by].note(size, reading * size / missed)
        elif curve:
            self._latest.append(curve)
            curve.note(depth, seconds)


def _about(rows: int) -> int:
    """Round down to a power of two."""
    return 1 << (rows.bit_length() - 1)

"""The search for the fastest choice of options: one option after the other, neighbours first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from localspec.interfaces.coordinate import Coordinate, OptionValue

STEP = 1.01  # times as fast, at least, for another choice to be the best so far
GAIN = 1.03  # times as fast as the usual choice, at least, to be kept
SWEEPS = 2  # times that all options are gone through: one may change what another is worth
TURNS = 3  # times that the best and the usual choice are measured again, if there is time
PATIENCE = 3  # values in one direction that are tried without a gain

Choice = Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The choice that is to be used, and how many times as fast as the usual one it is."""

    choice: Choice
    gain: float


class Search:
    """Measures choices; a score is a speed, and 0 one that cannot be used."""

    def __init__(self, measure: Callable[[Choice], float], has_time: Callable[[], bool]) -> None:
        self._measure, self._has_time = measure, has_time
        self._scores: dict[tuple[OptionValue, ...], float] = {}

    def run(self, usual: Choice, start: Choice, coordinates: Sequence[Coordinate]) -> Outcome:
        """Search from a start, or from the usual choice where that is faster.

        Another one is returned only if it is still faster whenever both are measured again.
        """
        usual_score = self._score(usual)  # first, as its text is what all must write
        best = start if self._score(start) > usual_score else usual
        for _ in range(SWEEPS):
            before = best
            for coordinate in coordinates:
                best = self._along(coordinate, best)
            if best == before:
                break
        gain = 1.0 if best == usual else self._gain(usual, best)
        return Outcome(best, gain) if gain >= GAIN else Outcome(usual, 1.0)

    def _gain(self, usual: Choice, best: Choice) -> float:
        """Measure both in turns; return how many times as fast the best is: 1 if it once is not.

        That it was the best of many before proves little: one of many is, by chance.
        """
        ratios = []
        for _ in range(TURNS):
            usual_score, score = self._measure(usual), self._measure(best)
            ratios.append(score / usual_score if usual_score else float("inf"))
            if ratios[-1] < STEP:
                return 1.0
            if not self._has_time():
                break
        return median(ratios)

    def _along(self, coordinate: Coordinate, best: Choice) -> Choice:
        """Try the values on both sides of the present one, as far as they get faster."""
        option, values = coordinate
        start = values.index(best[option])
        for direction in (values[start + 1 :], values[:start][::-1]):
            failures = 0
            for value in direction:
                if failures == PATIENCE or not self._has_time():
                    break
                choice = {**best, option: value}
                if self._score(choice) > STEP * self._score(best):
                    best, failures = choice, 0
                else:
                    failures += 1
        return best

    def _score(self, choice: Choice) -> float:
        """Return the score of a choice, measured once."""
        key = tuple(choice.values())
        if key not in self._scores:
            self._scores[key] = self._measure(choice)
        return self._scores[key]


def including(coordinates: Sequence[Coordinate], start: Choice) -> list[Coordinate]:
    """Return the coordinates with the values of a start among theirs."""
    return [
        coordinate
        if start[coordinate.option] in coordinate.values
        else Coordinate(coordinate.option, (start[coordinate.option], *coordinate.values))
        for coordinate in coordinates
    ]

"""The positions of pictures and sounds in a text: their numbers, and where they stand."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from localspec.base.errors import LocalSpecError, UsageError
from localspec.interfaces.media import Run, RunName

if TYPE_CHECKING:
    from localspec.base.tokens import Tokens

# The first number of the first run, and the last that a text can hold. Those above the first are
# free: code that looks texts up marks its own places with them.
HIGHEST, LOWEST = -1024, -(1 << 31)


class Numbers:
    """Gives each run its numbers: `first`, `first - 1` and so on. Any thread may ask."""

    def __init__(self) -> None:
        self._first_of: dict[RunName, int] = {}
        self._name_of: dict[int, RunName] = {}
        self._next = HIGHEST
        self._lock = threading.Lock()

    def first(self, name: RunName) -> int:
        """Return the number of a run's first position."""
        with self._lock:
            if name not in self._first_of:
                if self._next - name.length < LOWEST:
                    raise LocalSpecError("this process has read all pictures it can: restart it")
                self._first_of[name], self._name_of[self._next] = self._next, name
                self._next -= name.length + 1  # no run goes on in the numbers of another
            return self._first_of[name]

    def name(self, first: int) -> RunName:
        return self._name_of[first]

    @property
    def names(self) -> list[RunName]:
        """All that have numbers, in their order."""
        return list(self._first_of)


NUMBERS = Numbers()


class Stretch(NamedTuple):
    """The place of a run in a text."""

    start: int
    end: int
    run: Run


def positions(run: Run) -> range:
    """Return the numbers that stand for a run in a text."""
    return range(run.first, run.first - run.name.length, -1)


def without_media(text: Tokens) -> Tokens:
    """Return the tokens of a text alone."""
    return text[text >= 0]


def stretches(text: Tokens, runs: Sequence[Run]) -> Iterator[Stretch]:
    """Yield the places of runs in a text; each of them stands there complete."""
    by_first, end = {run.first: run for run in runs}, 0
    for place in (text < 0).nonzero()[0].tolist():
        if place < end:
            continue
        run = by_first.get(int(text[place]))
        end = place + (run.name.length if run else 0)
        if run is None or text[place:end].tolist() != list(positions(run)):
            raise UsageError(f"the prompt has a number at {place:,} that is no token")
        yield Stretch(place, end, run)


def names_in(text: Tokens, numbers: Numbers = NUMBERS) -> Iterator[tuple[int, RunName]]:
    """Yield where runs begin in a text, which may end within one, and their names."""
    end = 0
    for place in (text < 0).nonzero()[0].tolist():
        if place >= end:
            name = numbers.name(int(text[place]))
            end = place + name.length
            yield place, name

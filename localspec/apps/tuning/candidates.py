"""Choices of options for a pair, each planned for and measured in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from localspec.apps.tuning.search import Choice
from localspec.base.errors import LocalSpecError
from localspec.interfaces.backend import Options
from localspec.running.memory.plan import Plan
from localspec.running.models.trial_speed import Speeds
from localspec.running.runtime.tuning import as_typed

TIMES_AS_LONG = 4.0  # as the first one, with loading, at most: it is not the fastest then
LIMIT_SECONDS = 600.0  # for the first one
PAUSE_SECONDS = 5.0  # at least, in which another one loads

PlanFor = Callable[[Options], Plan]
Measure = Callable[[Options, float, float], Speeds]  # by options, seconds, and most seconds


class Tried(NamedTuple):
    """A choice that was tried: its speeds, or why it cannot be used."""

    choice: Choice
    speeds: Speeds | None
    fault: str = ""


@dataclass(slots=True)
class Candidates:
    """Judges choices by the first one, whose text and whose context they must have.

    plan, measure: how a choice is planned for, and timed
    options: those of the pair, which a choice is put over
    seconds: to time one
    tell: hears of each that was tried
    """

    plan: PlanFor
    measure: Measure
    options: Options
    seconds: float
    tell: Callable[[Tried], None]
    clock: Callable[[], float] = time.monotonic
    first_plan: Plan | None = None
    first: Speeds | None = None
    last: float = 0.0  # seconds that the last one took, with loading
    longest: float = 0.0  # that one took
    rivals: list[float] = field(default_factory=list)  # shares of the processors, for each

    def score(self, choice: Choice) -> float:
        """Return how fast a choice is, or 0 where it cannot be used."""
        start = self.clock()
        try:
            tried = self._try(choice)
        except LocalSpecError as error:
            if self.first is None:
                raise
            tried = Tried(choice, None, str(error))
        self.last = self.clock() - start
        self.longest = max(self.longest, self.last)
        self.tell(tried)
        return 0.0 if tried.fault or tried.speeds is None else tried.speeds.score

    def _try(self, choice: Choice) -> Tried:
        plan = self.plan(replace(self.options, **choice))
        if self.first_plan and len(plan.concessions) > len(self.first_plan.concessions):
            return Tried(choice, None, f"does not fit: {plan.concessions[-1].what}")
        limit = LIMIT_SECONDS
        if self.first is not None:
            limit = max(TIMES_AS_LONG * self.longest, PAUSE_SECONDS + self.seconds)
        speeds = self.measure(plan.options, self.seconds, limit)
        self.rivals.append(speeds.rivals)
        if self.first is None or self.first_plan is None:
            self.first_plan, self.first = plan, speeds
        same_kv = plan.options.kv_type == self.first_plan.options.kv_type
        fault = "another text" if same_kv and speeds.text != self.first.text else ""
        return Tried(choice, speeds, fault)


class Table:
    """The lines of a table of what was tried, as it comes."""

    def __init__(self, usual: Choice, say: Callable[[str], None]) -> None:
        self._usual, self._say = usual, say
        self._say(f"{'reading':>9}{'plain':>9}{'drafts':>9}  tokens a second, loaded")

    def add(self, tried: Tried) -> None:
        changes = {name: v for name, v in tried.choice.items() if v != self._usual[name]}
        row = f"{'-':>9}" * 3
        if speeds := tried.speeds:
            row = f"{speeds.reading:9.1f}{speeds.plain:9.1f}{speeds.wide:9.1f}"
        fault = f": {tried.fault}" if tried.fault else ""
        self._say(f"{row}  {as_typed(changes)}{fault}")

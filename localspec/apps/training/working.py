"""The time that a training works, and its manners: it waits while others are being answered."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath

import psutil

LOOK_SECONDS = 2.0  # between two looks at what others do
QUIET_SECONDS = 5.0  # without a request, after which work goes on
BUSY = 0.1  # processors that somebody else's reply takes at least; one that waits takes none
ANSWERING = frozenset(("serve", "chat", "run", "generate"))  # commands that answer
NICE = 15


def be_modest() -> None:
    """Give way to every other program that wants the processors; call it before engines load.

    Threads that spin while they wait for each other would take them all the same.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    lower = psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else NICE
    with suppress(psutil.Error):
        psutil.Process().nice(lower)


def answers(command: Sequence[str]) -> bool:
    """Return whether a command line is one of LocalSpec's that answer requests."""
    names = [PurePath(word).stem for word in command[:4]]
    return "localspec" in names and not ANSWERING.isdisjoint(command)


def processor_seconds() -> dict[int, float]:
    """Measure what the other programs of this machine that answer have computed, by process."""
    seconds = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and answers(process.cmdline()):
                times = process.cpu_times()
                seconds[process.pid] = times.user + times.system
    return seconds


class Others:
    """Knows whether a LocalSpec of this machine answered since the last look."""

    def __init__(
        self,
        read: Callable[[], dict[int, float]] = processor_seconds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._clock = read, clock
        self._seconds, self._looked = read(), clock()

    def __call__(self) -> bool:
        seconds, now = self._read(), self._clock()
        most = BUSY * (now - self._looked)
        busy = any(
            pid in self._seconds and taken - self._seconds[pid] > most
            for pid, taken in seconds.items()
        )
        self._seconds, self._looked = seconds, now
        return busy


class WorkTime:
    """The seconds of work, those of earlier runs included; pauses do not count."""

    def __init__(
        self,
        budget: float,
        spent: float = 0.0,
        busy: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.budget = budget
        self.tell: Callable[[str], None] = lambda _: None  # hears why nothing goes on
        self._spent, self._busy = spent, busy or Others()
        self._clock, self._sleep = clock, sleep
        self._begun = self._looked = clock()

    @property
    def seconds(self) -> float:
        return self._spent + self._clock() - self._begun

    @property
    def left(self) -> float:
        return max(self.budget - self.seconds, 0.0)

    def breathe(self) -> None:
        """Wait while somebody is being answered; call it wherever work can stop."""
        now = self._clock()
        if now - self._looked < LOOK_SECONDS:
            return
        while self._busy():
            self.tell("waits while a LocalSpec on this machine answers")
            self._sleep(QUIET_SECONDS)
            self._begun, now = self._begun + self._clock() - now, self._clock()
        self._looked = now

"""A supervisor: when an engine or a driver ends a process, it starts another one.

A driver that fails, or a device that is lost, ends a process: by an abort of the engine, or by a
segmentation fault. The process that was started stays, runs none of that, and begins another one.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from localspec.system.signals import heard

if sys.platform != "win32":
    import termios

REQUESTED_ENDS = ("SIGTERM", "SIGHUP", "SIGINT")  # the ends that a user or the system wants
PAUSE_SECONDS = 1.0  # before it is begun anew, so that no processor is spent on failing
BEGUN = b"1"


@dataclass(frozen=True, slots=True)
class Life:
    """One of the processes that a supervisor starts in turn."""

    first: bool
    begun: Callable[[], object]  # to be called once it does what it is for


ONE_LIFE = Life(True, lambda: None)  # in this process, which is not begun anew


class Lives(Protocol):
    """Begins the lives of a command."""

    def __call__(self, *, again: bool) -> Life: ...


def one_life(*, again: bool = False) -> Life:  # noqa: ARG001
    """Stay in this process."""
    return ONE_LIFE


def lives(tell: Callable[[str], object], *, again: bool = True, grace: float = math.inf) -> Life:
    """Return in a process of its own; if `again`, in another one whenever a signal ended that.

    The process that calls stays behind and exits like the one that ends by itself. Call it while
    there is no engine. Without `fork` there is one life, in this process. What was asked to end
    and did not within `grace` seconds is killed.
    """
    if sys.platform == "win32":
        return ONE_LIFE
    first, terminal = True, _terminal()
    while True:
        death = _fork(grace)
        if not isinstance(death, Death):
            return Life(first, begun=death)
        name = signal.Signals(-death.code).name if death.code < 0 else ""
        # What breaks while it ends on request has ended, too.
        on_request = name in REQUESTED_ENDS or (again and death.request)
        if not (name or on_request):
            raise SystemExit(death.code)
        if on_request:
            number = death.request or -death.code
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if terminal:
            termios.tcsetattr(0, termios.TCSADRAIN, terminal)
        anew = "; it begins anew" if death.begun else " before it was ready"
        tell(f"{name} ended the engine" + (anew if again else ""))
        if not (again and death.begun):
            raise SystemExit(1)
        first = False
        time.sleep(PAUSE_SECONDS)


class Death(NamedTuple):
    """The end of a process, as its parent sees it."""

    code: int  # below 0: the signal that ended it
    request: int  # the signal that asked it to end; 0: none did
    begun: bool  # whether it did what it is for


def _fork(grace: float) -> Death | Callable[[], object]:
    """Fork: return to the parent once the child has ended, to the child what tells it has begun."""
    news, writer = os.pipe()
    parent_lives, parent = os.pipe()
    with heard(*REQUESTED_ENDS, "SIGCHLD") as signals:
        child = os.fork()
        status, request = _end_of(child, signals, grace) if child else (0, 0)
    if not child:
        os.close(parent)
        threading.Thread(target=_leave_with, args=[parent_lives], daemon=True).start()
        return partial(os.write, writer, BEGUN)
    os.set_blocking(news, False)
    os.close(writer)
    begun = os.read(news, 1) == BEGUN
    for end in (news, parent_lives, parent):
        os.close(end)
    return Death(os.waitstatus_to_exitcode(status), request, begun)


def _end_of(child: int, signals: int, grace: float) -> tuple[int, int]:
    """Wait for a process, and pass on to it that this one shall end.

    Return how it ended, and the signal that asked for it, or 0.
    """
    request, latest = 0, math.inf
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, request
        left = latest - time.monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            latest, left = math.inf, math.inf
        if not select.select([signals], [], [], None if left == math.inf else left)[0]:
            continue
        for number in os.read(signals, 64):
            if number != signal.SIGCHLD:
                request = number
                latest = min(latest, time.monotonic() + grace)
                if number != signal.SIGINT or not _shares_terminal():
                    os.kill(child, number)


def _terminal() -> list[Any]:
    """Return the terminal's settings, which a process may leave changed; empty without one."""
    try:
        return termios.tcgetattr(0)
    except (termios.error, OSError):
        return []


def _shares_terminal() -> bool:
    """Whether Ctrl-C reaches both processes without being passed on."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _leave_with(parent_lives: int) -> None:
    os.read(parent_lives, 1)  # until its other end is closed
    os.kill(os.getpid(), signal.SIGTERM)

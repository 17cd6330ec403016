"""A supervisor: the process of the command forks a child, and another one when a signal ended it.

A driver that fails, or a device that is lost, ends a process: by an abort of the engine, or by a
segmentation fault. Engines therefore run in the child alone.
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

from localspec.base.system.signals import Heard, NextSignal, heard

if sys.platform != "win32":
    import termios
    from signal import SIGKILL

REQUESTED_ENDS = ("SIGTERM", "SIGHUP", "SIGINT")  # the ends that a user or the system wants
PAUSE_SECONDS = 1.0  # before another child, so that no processor is spent on failing
DOUBT_SECONDS = 0.4  # after which a process that still lives may not have heard of Ctrl-C
MEMORY_SECONDS = 15.0  # after which a process that still lives was not ended by Ctrl-C
READY = b"1"


@dataclass(frozen=True, slots=True)
class Child:
    """The process that does the work, as it sees itself."""

    is_first: bool  # else another one was ended by a signal
    report_ready: Callable[[], object]  # to be called once it does what it is for


UNSUPERVISED = Child(True, lambda: None)  # this process, which nobody replaces


class Supervise(Protocol):
    """Forks a child for a command; `again`: another one when a signal ended it."""

    def __call__(self, *, again: bool) -> Child: ...


def unsupervised(*, again: bool = False) -> Child:  # noqa: ARG001
    """Stay in this process."""
    return UNSUPERVISED


def supervise(
    tell: Callable[[str], object], *, again: bool = True, grace: float = math.inf
) -> Child:
    """Return in a child process; if `again`, in another one whenever a signal ended a ready one.

    The caller's process never returns: it exits like the child that ends by itself. Call it while
    there is no engine. Without `fork` it returns in this process. A child that was asked to end and
    did not within `grace` seconds is killed.
    """
    if sys.platform == "win32":
        return UNSUPERVISED
    first, terminal = True, _terminal()
    while True:
        end = _fork(grace, again=again)
        if not isinstance(end, ChildEnd):
            return Child(first, report_ready=end)
        name = signal.Signals(-end.code).name if end.code < 0 else ""
        # What breaks while it ends on request has ended, too.
        on_request = name in REQUESTED_ENDS or (end.request and bool(name or again))
        if terminal and (name or end.request) and _in_foreground() is not False:
            termios.tcsetattr(0, termios.TCSADRAIN, terminal)
        left = end.request == signal.SIGINT and end.code in (0, 128 + end.request)
        if not (name or on_request) or left:
            raise SystemExit(end.code)
        if on_request:
            number = end.request or -end.code
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        anew = "; it begins anew" if end.was_ready else " before it was ready"
        tell(f"{name} ended the engine" + (anew if again else ""))
        if not (again and end.was_ready):
            raise SystemExit(1)
        first = False
        time.sleep(PAUSE_SECONDS)


class ChildEnd(NamedTuple):
    """The end of a child, as its parent sees it."""

    code: int  # below 0: the signal that ended it
    request: int  # the signal that asked it to end; 0: none did
    was_ready: bool  # whether it did what it is for


def _fork(grace: float, *, again: bool) -> ChildEnd | Callable[[], object]:
    """Fork: return in the parent once the child ended; in the child, a function to report with."""
    news, writer = os.pipe()
    parent_lives, parent = os.pipe()
    with heard(*REQUESTED_ENDS, "SIGCHLD") as next_signal:
        child = os.fork()
        status, request = 0, 0
        if child:
            answer = partial(_answer, news=news, again=again)
            status, request = _end_of(child, next_signal, grace, answer)
    if not child:
        os.close(parent)
        threading.Thread(target=_leave_with, args=[parent_lives], daemon=True).start()
        return partial(os.write, writer, READY)
    os.set_blocking(news, False)
    os.close(writer)
    was_ready = os.read(news, 1) == READY
    for end in (news, parent_lives, parent):
        os.close(end)
    return ChildEnd(os.waitstatus_to_exitcode(status), request, was_ready)


def _end_of(
    child: int, next_signal: NextSignal, grace: float, answer: Callable[[Heard], tuple[float, int]]
) -> tuple[int, int]:
    """Wait for a process, and pass on to it that this one shall end.

    Return how it ended, and the signal that asked for it, or 0.
    """
    request, due = 0, list[tuple[float, int]]()  # signals to send, by the clock; 0: forget
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, request
        now = time.monotonic()
        for number in (number for at, number in due if at <= now):
            if number:
                os.kill(child, number)
            else:
                request = 0
        due = [(at, number) for at, number in due if at > now]
        heard = next_signal(min((at for at, _ in due), default=math.inf) - now)
        if heard and heard.number != signal.SIGCHLD:
            request = heard.number
            answers = answer(heard), (grace, SIGKILL)
            now = time.monotonic()  # it may have been waited for long
            due += [(now + seconds, number) for seconds, number in answers]


def _answer(heard: Heard, news: int, *, again: bool) -> tuple[float, int]:
    """Return the seconds until a process gets a signal after one of its parent, and which; or 0.

    Ctrl-C at a keyboard reaches both. A process that begins anew decides what it means, as a chat
    stops an answer first; SIGINT from a program always asks for its end. While it loads, SIGINT
    ends it, later SIGTERM.
    """
    if heard.number != signal.SIGINT:
        return 0, heard.number
    shared = bool(_in_foreground())
    if not again:
        return DOUBT_SECONDS if shared else 0, signal.SIGINT
    if shared if heard.typed is None else heard.typed:
        return MEMORY_SECONDS, 0
    is_ready, _, _ = select.select([news], [], [], 0)
    return 0, signal.SIGTERM if is_ready else signal.SIGINT


def _terminal() -> list[Any]:
    """Return the terminal's settings, which a process may leave changed; empty without one."""
    try:
        return termios.tcgetattr(0)
    except (termios.error, OSError):
        return []


def _in_foreground() -> bool | None:
    """Whether the terminal's keyboard is for this process; None: it is not its own terminal."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return None


def _leave_with(parent_lives: int) -> None:
    os.read(parent_lives, 1)  # until its other end is closed
    os.kill(os.getpid(), signal.SIGTERM)

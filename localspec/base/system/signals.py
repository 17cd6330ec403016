"""Signals that end the process, handled so that it closes what is open."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDINGS = ("SIGTERM", "SIGHUP")  # the latter when a terminal is closed, and not on Windows
Handler = Callable[[int, FrameType | None], object]


@contextmanager
def leaving() -> Iterator[None]:
    """Leave by SystemExit when the system ends us, so that all that is open is closed."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    with handled(leave, *ENDINGS):
        yield


@contextmanager
def handled(handler: Handler, *names: str) -> Iterator[None]:
    """Handle these signals inside the context, where the system has them.

    A SIGHUP that is ignored stays so: `nohup` began this process.
    """
    numbers = [one for one in signal.Signals if one.name in names and not _is_nohup(one)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


def end_after(seconds: float, number: int) -> None:
    """End this process as if by a signal when so much time has gone by, whatever its threads do.

    Python would wait for each of them, and some of what they call cannot be interrupted.
    """
    timer = threading.Timer(seconds, os._exit, [128 + number])
    timer.daemon = True
    timer.start()


@contextmanager
def heard(*names: str) -> Iterator[int]:
    """Yield the end of a pipe that gives the number of each of these signals as a byte.

    A signal just before a read waits in the pipe. A handler would run only after a system call
    that no signal interrupts any more, such as `waitpid`.
    """
    end, other = os.pipe()
    os.set_blocking(other, False)
    usual = signal.set_wakeup_fd(other)
    try:
        with handled(lambda *_: None, *names):
            yield end
    finally:
        signal.set_wakeup_fd(usual)
        os.close(end)
        os.close(other)


def _is_nohup(number: signal.Signals) -> bool:
    return number.name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def interrupted(stop: Callable[[], object]) -> Iterator[None]:
    """Let the first Ctrl-C call `stop`; a second one interrupts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.getsignal(signal.SIGINT)

    def heard(number: int, _: FrameType | None) -> None:
        signal.signal(number, usual)
        stop()

    with handled(heard, "SIGINT"):
        yield

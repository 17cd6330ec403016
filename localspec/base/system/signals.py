"""Signals that end the process, handled so that it closes what is open."""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import NamedTuple, NoReturn

ENDINGS = ("SIGTERM", "SIGHUP")  # the latter when a terminal is closed, and not on Windows
Handler = Callable[[int, FrameType | None], object]
LEAVE_SECONDS = 0.3  # in which what Ctrl-C interrupts closes what it opened


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


@contextmanager
def held_back(*names: str) -> Iterator[None]:
    """Let these signals come when the block is over."""
    numbers: list[int] = []
    with handled(lambda number, _: numbers.append(number), *names):
        yield
    for number in numbers:
        signal.raise_signal(number)


def end_after(seconds: float, number: int) -> None:
    """End this process as if by a signal when so much time has gone by, whatever its threads do.

    Python would wait for each of them, and some of what they call cannot be interrupted.
    """
    timer = threading.Timer(seconds, os._exit, [128 + number])
    timer.daemon = True
    timer.start()


class Heard(NamedTuple):
    """A signal, and whether the terminal's keyboard sent it; None: the system does not say."""

    number: int
    typed: bool | None = None


NextSignal = Callable[[float], Heard | None]  # waits so many seconds, which may be infinite


@contextmanager
def heard(*names: str) -> Iterator[NextSignal]:
    """Yield a function that waits for the next of these signals; none is lost between two calls.

    For a process of one thread: another one could take a signal meanwhile.
    """
    numbers = {one for one in signal.Signals if one.name in names and not _is_nohup(one)}
    if sys.platform != "linux":
        with _piped(*names) as end:
            yield partial(_read_signal, end)
        return
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def next_signal(seconds: float) -> Heard | None:
        info = signal.sigtimedwait(numbers, min(max(seconds, 0.0), threading.TIMEOUT_MAX))
        return Heard(info.si_signo, info.si_code > 0) if info else None

    try:
        yield next_signal
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


@contextmanager
def _piped(*names: str) -> Iterator[int]:
    """Yield the end of a pipe that gives the number of each of these signals as a byte."""
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


def _read_signal(end: int, seconds: float) -> Heard | None:
    ready, _, _ = select.select([end], [], [], None if math.isinf(seconds) else max(seconds, 0.0))
    return Heard(os.read(end, 1)[0]) if ready else None


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


@contextmanager
def left_at_once(last: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let Ctrl-C end this block within a second, or else the process, with exit code 130.

    The first one raises KeyboardInterrupt; later ones do not disturb what is being closed. A thread
    waits for the end of the block, since a call of an engine may keep the main thread from hearing
    of the signal; it calls `last` before it ends the process.
    """
    usual = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or usual is not signal.default_int_handler:
        yield
        return
    heard, writer = os.pipe()
    os.set_blocking(writer, False)
    over = threading.Event()
    watch = threading.Thread(target=_leave_after, args=[heard, over, last], daemon=True)
    watch.start()
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        with handled(_interrupt_once, "SIGINT"):
            yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
        watch.join()
        os.close(heard)


def _interrupt_once(*_: object) -> None:
    signal.signal(signal.SIGINT, lambda *_: None)
    raise KeyboardInterrupt


def _leave_after(heard: int, over: threading.Event, last: Callable[[], object]) -> None:
    """Wait for SIGINT, or the end of a pipe; end the process unless the block is over soon."""
    while numbers := os.read(heard, 64):
        if signal.SIGINT in numbers and not over.wait(LEAVE_SECONDS):
            with suppress(Exception):
                last()
            os._exit(128 + signal.SIGINT)

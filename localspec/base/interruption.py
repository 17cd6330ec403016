"""Ends long work that nobody waits for any more, and holds Ctrl-C back where it would do harm.

Whoever starts the work on a thread gives it a `Patience`; what takes long looks at it now and then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class Interrupted(Exception):
    """Raised in work that was given up; nobody is there to hear it."""


@dataclass(slots=True, eq=False)
class Patience:
    """Knows whether somebody still waits. Any thread may end it."""

    over: bool = False

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let the work of this thread look at it."""
        token = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(token)


CURRENT: ContextVar[Patience | None] = ContextVar("patience", default=None)


def is_given_up() -> bool:
    """Return whether nobody waits for the work of this thread any more."""
    patience = CURRENT.get()
    return patience is not None and patience.over


def check_patience() -> None:
    """Raise if nobody waits for the work any more."""
    if is_given_up():
        raise Interrupted


@dataclass(slots=True, eq=False)
class HeldInterrupt:
    """Knows whether Ctrl-C was pressed meanwhile."""

    heard: bool = False


@contextmanager
def interrupt_held() -> Iterator[HeldInterrupt]:
    """Hold Ctrl-C back to the end of the block, where it comes in place of any other error.

    An engine in the block calls Python back: what a handler raises there is printed and lost, or
    leaves half of what was to be freed.
    """
    held = HeldInterrupt()
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield held
        return

    def hear(*_: object) -> None:
        held.heard = True

    signal.signal(signal.SIGINT, hear)
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, usual)
        if held.heard:
            usual(signal.SIGINT, None)

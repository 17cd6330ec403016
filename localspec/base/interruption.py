"""Ends long work that nobody waits for any more.

Whoever starts the work on a thread gives it a `Patience`; what takes long looks at it now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class Interrupted(Exception):
    """Raised in work that was given up; nobody is there to hear it."""


@dataclass(slots=True, eq=False)
class Patience:
    """Tells whether somebody still waits. Any thread may end it."""

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
    """Tell whether nobody waits for the work of this thread any more."""
    patience = CURRENT.get()
    return patience is not None and patience.over


def check_patience() -> None:
    """Raise if nobody waits for the work any more."""
    if is_given_up():
        raise Interrupted

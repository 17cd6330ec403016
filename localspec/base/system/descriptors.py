"""File descriptors: how many this process may have open, connections among them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

MAX_DESCRIPTORS = 16_384  # descriptors: more are of no use here


def raise_limit() -> None:
    """Raise the usual limit, often 1,024, to what the system allows this process."""
    if sys.platform == "win32":
        return
    import resource

    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = MAX_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, MAX_DESCRIPTORS)
    if usual != resource.RLIM_INFINITY and usual < wished:
        with suppress(OSError, ValueError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wished, most))


@contextmanager
def limit_kept() -> Iterator[None]:
    """Keep the limit while a library is imported: mlx-lm lowers it, which only root can take back.

    A running server imports engines, too, after it has counted how many connections it can have.
    """
    if sys.platform == "win32":
        yield
        return
    import resource

    set_limit = resource.setrlimit

    def set_other_limit(kind: int, limits: tuple[int, int]) -> None:
        if kind != resource.RLIMIT_NOFILE:
            set_limit(kind, limits)

    resource.setrlimit = set_other_limit
    try:
        yield
    finally:
        resource.setrlimit = set_limit


def left() -> int:
    """Count the descriptors that can still be opened."""
    if sys.platform == "win32":
        return MAX_DESCRIPTORS
    import resource

    usual, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if usual == resource.RLIM_INFINITY else usual
    taken: int = psutil.Process().num_fds()
    return max(limit - taken, 0)

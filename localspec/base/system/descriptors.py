"""File descriptors: how many this process may have open, connections among them."""

from __future__ import annotations

import sys
from contextlib import suppress

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


def left() -> int:
    """Count the descriptors that can still be opened."""
    if sys.platform == "win32":
        return MAX_DESCRIPTORS
    import resource

    usual, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if usual == resource.RLIM_INFINITY else usual
    taken: int = psutil.Process().num_fds()
    return max(limit - taken, 0)

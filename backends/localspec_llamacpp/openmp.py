"""The threads that OpenMP keeps for each thread that ever called it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import llama_cpp.llama_cpp as lib

HARD = 2  # the way to pause that gives everything back


def end_threads() -> None:
    """End those of the calling thread; the next computation begins new ones.

    While all callers together have more than there are processors, GNU's OpenMP lets threads that
    wait for others sleep at once: a token took 1.5 times as long beside an idle model.
    """
    if pause := _pause():
        pause(HARD)


@cache
def _pause() -> Callable[[int], int] | None:
    """Find GNU's function; LLVM's would end the threads of other callers, too."""
    pause: Callable[[int], int] | None = getattr(lib._lib, "omp_pause_resource_all", None)
    return None if getattr(lib._lib, "__kmpc_fork_call", None) else pause

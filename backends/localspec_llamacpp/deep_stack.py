"""Calls that recurse deeply, on a thread whose stack is large enough for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
PAGE = 1 << 16
LOCK = threading.Lock()  # the size of stacks is one for all threads that are started


def on_deep_stack(work: Callable[[], T], stack_bytes: int) -> T:
    """Do some work with so large a stack; with that of the caller where it is not to be had."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    started = _start(threading.Thread(target=run, daemon=True), stack_bytes)
    return future.result() if started else work()


def _start(thread: threading.Thread, stack_bytes: int) -> bool:
    with LOCK:
        before = threading.stack_size(-(-stack_bytes // PAGE) * PAGE)
        try:
            thread.start()
        except RuntimeError:  # there is no memory for the stack
            return False
        finally:
            threading.stack_size(before)
    return True

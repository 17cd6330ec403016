"""A watch over the connections of a group: MLX waits for ever for a member that is gone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import psutil

LOOK_SECONDS = 0.5
LOST = b"localspec: another process of the group was lost: start the group again\n"

Connection = tuple[object, object]


def watch() -> Callable[[], None]:
    """End this process once a connection that it has now is gone; return how to stop that.

    Requests end so, with their connections, since the thread that runs the model never returns.
    """
    had, done = connections(), threading.Event()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            if not had <= connections():
                os.write(2, LOST)
                os._exit(1)

    threading.Thread(target=look, daemon=True).start()
    return done.set


def connections() -> set[Connection]:
    """List the connections of this process whose other end is there."""
    own = psutil.Process().net_connections("tcp")
    return {(link.laddr, link.raddr) for link in own if link.status == psutil.CONN_ESTABLISHED}

"""The inside of a confined process: one request after the other, each within a limit of time.

It is run by its path, and loads a script by its path: importing the package would take half as long
as all that they need. The script's `respond` takes a request and bytes, and returns as much. They
come as a line of JSON, `[request, length]`, and so many bytes; so go `[reply, length, seconds]`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from runpy import run_path


def main(script: str, seconds: float) -> None:
    """Answer until there are no more requests; one that takes too long ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the program to say what that ends
    respond = run_path(script)["respond"]
    for line in sys.stdin.buffer:
        start = time.process_time()
        with limited(seconds):
            request, length = json.loads(line)
            reply, data = respond(request, sys.stdin.buffer.read(length))
            head = json.dumps([reply, len(data), time.process_time() - start])
            try:
                sys.stdout.buffer.write(head.encode() + b"\n" + data)
                sys.stdout.buffer.flush()
            except BrokenPipeError:  # whoever asked has ended, and Python would complain of it
                os._exit(0)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End this process after so many seconds of work; on a busy machine they last longer.

    A timer needs no interpreter: not even one long power, or a dead program, stops it.
    """
    if sys.platform == "win32":  # has a clock of the wall only
        with open(os.devnull, "w") as nowhere:
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
            yield
            faulthandler.cancel_dump_traceback_later()
    else:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # a parent may have ignored it
        signal.setitimer(signal.ITIMER_PROF, seconds)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))

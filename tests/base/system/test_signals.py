"""Signals that are heard through a pipe, so that none is lost just before one waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from localspec.base.system.signals import heard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


def test_a_signal_from_before_the_pipe_is_read_is_in_it():
    usual = signal.getsignal(signal.SIGTERM)
    with heard("SIGTERM", "SIGHUP") as pipe:
        os.kill(os.getpid(), signal.SIGTERM)
        assert os.read(pipe, 8) == bytes([signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) is usual
    assert signal.set_wakeup_fd(-1) == -1


STUCK = """
import concurrent.futures, signal, time
from localspec.base.system.signals import end_after
pool = concurrent.futures.ThreadPoolExecutor(1)
pool.submit(time.sleep, 600)
end_after(0.2, signal.SIGTERM)
"""


def test_a_process_ends_in_time_whatever_its_threads_do():
    done = subprocess.run([sys.executable, "-c", STUCK], check=False, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM

"""Signals that are heard through a pipe, so that none is lost just before one waits."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from localspec.system.signals import heard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


def test_a_signal_from_before_the_pipe_is_read_is_in_it():
    usual = signal.getsignal(signal.SIGTERM)
    with heard("SIGTERM", "SIGHUP") as pipe:
        os.kill(os.getpid(), signal.SIGTERM)
        assert os.read(pipe, 8) == bytes([signal.SIGTERM])
    assert signal.getsignal(signal.SIGTERM) is usual
    assert signal.set_wakeup_fd(-1) == -1

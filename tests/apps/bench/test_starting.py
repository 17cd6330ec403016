"""Servers of benchmarks end, whenever a benchmark is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from benchmarks.serving.process import interruptions_held_back, running, stop

SLEEPS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGALRM))
print("up", flush=True)
time.sleep(600)
"""  # and interrupts whoever would end it


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_being_started_ends_with_an_interruption(tmp_path, number):
    started, before = [], {child.pid for child in psutil.Process().children()}

    def address():
        started[:] = {child.pid for child in psutil.Process().children()} - before
        os.kill(os.getpid(), number)
        return ""

    usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            running("a server", SLEEPS, tmp_path / "log", address),
        ):
            raise AssertionError("it answers nothing")
    finally:
        signal.signal(signal.SIGTERM, usual)
    [pid] = started
    assert not psutil.pid_exists(pid)


def test_an_interruption_waits_until_the_process_is_known():
    modules = []

    def start():
        with interruptions_held_back():
            os.kill(os.getpid(), signal.SIGINT)
            modules.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert modules


def test_a_process_ends_though_whoever_waits_for_it_is_interrupted():
    command = [sys.executable, "-c", DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                stop(process)
        finally:
            signal.signal(signal.SIGALRM, usual)
        assert process.poll() == -signal.SIGKILL

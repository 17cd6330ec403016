"""Signals that are heard one by one, so that none is lost just before one waits; and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from localspec.base.interruption import interrupt_held

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")


HEARD = """
import os, signal
from localspec.base.system.signals import heard
usual = signal.getsignal(signal.SIGTERM)
with heard("SIGTERM", "SIGHUP") as next_signal:
    assert next_signal(0) is None
    os.kill(os.getpid(), signal.SIGTERM)
    assert next_signal(60).number == signal.SIGTERM
    assert next_signal(0) is None
assert signal.getsignal(signal.SIGTERM) is usual
assert signal.set_wakeup_fd(-1) == -1
"""


def test_a_signal_from_before_one_waits_is_heard():
    done = subprocess.run([sys.executable, "-c", HEARD], check=False, timeout=60)
    assert done.returncode == 0


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


LEFT = """
import ctypes, os, signal, sys, threading, time
from localspec.base.system.signals import left_at_once
with left_at_once(lambda: os.write(2, b"bye")):
    try:
        threading.Timer(0.3, print, ["ready"], dict(flush=True)).start()  # from within the work
        {work}
    finally:
        {closing}
print("not left", flush=True)
"""
LOCK = "c, m = ctypes.CDLL(None), ctypes.create_string_buffer(128); "
LOCK += "c.pthread_mutex_lock(m); c.pthread_mutex_lock(m)"
REST = "while True: time.sleep(0.01)"


def interrupted_process(work: str, closing: str = "pass", count: int = 1) -> tuple[int, str, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LEFT.format(work=work, closing=closing)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "ready\n"
    for _ in range(count):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_a_call_that_hears_of_no_signal_does_not_keep_a_process_from_leaving():
    assert interrupted_process(LOCK) == (130, "", "bye")


def test_an_interrupt_is_raised_once_and_what_is_closed_meanwhile_is_closed():
    closing = "time.sleep(0.2); print('closed', flush=True)"
    code, out, err = interrupted_process(REST, closing, count=3)
    assert (code, out) == (-signal.SIGINT, "closed\n")
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    assert "bye" not in err


def test_an_interrupt_that_was_held_back_comes_at_the_end_in_place_of_an_error():
    steps = []

    def load():
        with interrupt_held() as held:
            signal.raise_signal(signal.SIGINT)
            steps.append(held.heard)
            raise ValueError("the engine was asked to stop")

    with pytest.raises(KeyboardInterrupt):
        load()
    assert steps == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupt_held() as held:
        pass
    assert not held.heard

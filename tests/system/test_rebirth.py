"""A process that is ended by a signal is begun anew; one that ends by itself is not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

WORK = """
import os, signal, sys, time
from localspec.system import rebirth
rebirth.PAUSE_SECONDS = 0.01
life = rebirth.lives(lambda said: print(said, flush=True))
{before}
life.begun()
print("first" if life.first else "again", flush=True)
{work}
"""


def started(work: str, before: str = "") -> subprocess.Popen:
    code = WORK.format(work=work, before=before)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen) -> list[str]:
    lines, _ = process.communicate(timeout=20)
    return lines.splitlines()


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_what_a_signal_ends_begins_anew_until_it_ends_by_itself(name):
    process = started(f"os.kill(os.getpid(), signal.{name}) if life.first else sys.exit(3)")
    assert said(process) == ["first", f"{name} ended the engine; it begins anew", "again"]
    assert process.returncode == 3


def test_what_dies_before_it_is_ready_is_not_tried_again():
    process = started("", before="os.kill(os.getpid(), signal.SIGSEGV)")
    assert said(process) == ["SIGSEGV ended the engine before it was ready"]
    assert process.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_ends_the_first_process_ends_the_other(number):
    process = started("time.sleep(60)")
    assert process.stdout.readline() == "first\n"
    [other] = psutil.Process(process.pid).children()
    process.send_signal(number)
    assert said(process) == []
    assert process.returncode == -number
    assert not other.is_running()


def test_the_other_process_ends_with_the_first_however_that_ends():
    process = started("time.sleep(60)")
    assert process.stdout.readline() == "first\n"
    [other] = psutil.Process(process.pid).children()
    process.kill()
    process.communicate(timeout=20)
    end = time.monotonic() + 10
    while other.is_running() and time.monotonic() < end:
        time.sleep(0.02)
    assert not other.is_running()

"""A process that is ended by a signal is begun anew; one that ends by itself is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import psutil
import pytest

from localspec.base.system import supervisor
from tests.waiting import until

termios = pytest.importorskip("termios")
pty = pytest.importorskip("pty")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

WORK = """
import os, signal, sys, time
from localspec.base.system import supervisor
supervisor.PAUSE_SECONDS = 0.01
child = supervisor.supervise(lambda said: print(said, flush=True){wish})
{before}
child.report_ready()
print("first" if child.is_first else "again", flush=True)
{work}
"""

REST = "while True: time.sleep(0.01)"  # a signal just before one long sleep would be heard after it


def started(work: str, wish: str = "", terminal: int | None = None, before: str = "", preexec=None):
    code = WORK.format(work=work, wish=wish, before=before)
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=terminal, stdout=pipe, text=True, preexec_fn=preexec)


def said(process: subprocess.Popen) -> list[str]:
    lines, _ = process.communicate(timeout=60)
    return lines.splitlines()


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_what_a_signal_ends_begins_anew_until_it_ends_by_itself(name):
    process = started(f"os.kill(os.getpid(), signal.{name}) if child.is_first else sys.exit(3)")
    assert said(process) == ["first", f"{name} ended the engine; it begins anew", "again"]
    assert process.returncode == 3


def test_what_dies_before_it_is_ready_is_not_tried_again():
    process = started("", before="os.kill(os.getpid(), signal.SIGSEGV)")
    assert said(process) == ["SIGSEGV ended the engine before it was ready"]
    assert process.returncode == 1


def test_what_is_not_to_begin_anew_ends_with_a_sentence():
    process = started("os.kill(os.getpid(), signal.SIGSEGV)", wish=", again=False")
    assert said(process) == ["first", "SIGSEGV ended the engine"]
    assert process.returncode == 1


def test_the_terminal_is_as_it_was_before_what_was_ended():
    silence = "import termios as t; now = t.tcgetattr(0); now[3] &= ~t.ECHO; t.tcsetattr(0, 0, now)"
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    process = started(f"{silence}; os.kill(os.getpid(), signal.SIGABRT)", ", again=False", theirs)
    assert said(process)[-1] == "SIGABRT ended the engine"
    assert termios.tcgetattr(theirs) == before
    assert before[3] & termios.ECHO
    for end in (ours, theirs):
        os.close(end)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_ends_the_first_process_ends_the_other(number):
    process = started(REST)
    assert process.stdout.readline() == "first\n"
    [other] = psutil.Process(process.pid).children()
    process.send_signal(number)
    assert said(process) == []
    assert process.returncode == -number
    assert not other.is_running()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_breaks_while_it_ends_is_not_begun_anew(number):
    broken = f"signal.signal({int(number)}, lambda *_: os.abort())"
    process = started(REST, before=broken)
    assert process.stdout.readline() == "first\n"
    process.send_signal(number)
    assert said(process) == []
    assert process.returncode == -number


def test_a_hangup_that_is_to_be_ignored_ends_nothing():
    ignored = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    work = "time.sleep(1); os.kill(os.getpid(), signal.SIGKILL) if child.is_first else sys.exit()"
    process = started(work, preexec=ignored)
    assert process.stdout.readline() == "first\n"
    process.send_signal(signal.SIGHUP)
    assert said(process)[0] == "SIGKILL ended the engine; it begins anew"


def test_the_other_process_ends_with_the_first_however_that_ends():
    process = started(REST)
    assert process.stdout.readline() == "first\n"
    [other] = psutil.Process(process.pid).children()
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not other.is_running())


DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def test_what_does_not_end_within_its_grace_is_killed():
    process = started(REST, ", grace=0.2", before=DEAF)
    assert process.stdout.readline() == "first\n"
    process.send_signal(signal.SIGTERM)
    assert said(process) == []
    assert process.returncode == -signal.SIGTERM


def test_what_ran_for_longer_than_its_grace_has_all_of_it_to_end_in():
    """A server that had run for 10 seconds was once killed in the moment of a SIGTERM."""
    slow = "time.sleep(0.2); print('ended', flush=True); os._exit(0)"
    before = f"signal.signal(signal.SIGTERM, lambda *_: exec({slow!r}))"
    process = started(REST, ", grace=2", before=before)
    assert process.stdout.readline() == "first\n"
    time.sleep(2.2)
    process.send_signal(signal.SIGTERM)
    assert said(process) == ["ended"]


def test_who_is_asked_to_end_ends_by_that_signal_whatever_the_other_process_exits_with():
    leaving = "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))"
    process = started(REST, before=leaving)
    assert process.stdout.readline() == "first\n"
    process.send_signal(signal.SIGTERM)
    assert said(process) == []
    assert process.returncode == -signal.SIGTERM


STAYS = """
signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
"""


class AtTerminal:
    """A process with a terminal of its own, whose keyboard a test has."""

    def __init__(self, memory: float) -> None:
        self.text = ""
        self.pid, self.keyboard = pty.fork()
        if not self.pid:
            code = WORK.format(work=REST, wish="", before=STAYS)
            code = code.replace(
                "PAUSE_SECONDS", f"MEMORY_SECONDS = {memory}; supervisor.PAUSE_SECONDS"
            )
            os.execv(sys.executable, [sys.executable, "-c", code])

    def until(self, text: str) -> None:
        while text not in self.text:
            self.text += os.read(self.keyboard, 4096).decode()

    def press_ctrl_c(self) -> None:
        self.until("first")
        os.write(self.keyboard, b"\x03")
        self.until("heard")

    def end(self) -> int:
        """Return how it ended, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.keyboard)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say who sent a signal")
def test_an_interrupt_by_a_program_ends_what_stays_after_ctrl_c():
    process = AtTerminal(memory=60)
    process.press_ctrl_c()
    time.sleep(2 * supervisor.DOUBT_SECONDS)
    os.kill(process.pid, signal.SIGINT)  # its parent alone gets that
    assert process.end() == -signal.SIGINT


def test_ctrl_c_that_ended_nothing_is_forgotten():
    process = AtTerminal(memory=0.1)
    process.press_ctrl_c()
    time.sleep(0.5)
    [other] = psutil.Process(process.pid).children()
    other.send_signal(signal.SIGSEGV)
    process.until("SIGSEGV ended the engine; it begins anew")
    process.until("again")
    os.kill(process.pid, signal.SIGTERM)
    assert process.end() == -signal.SIGTERM


def test_what_ends_by_itself_just_after_ctrl_c_ends_well():
    process = AtTerminal(memory=60)
    process.press_ctrl_c()
    [other] = psutil.Process(process.pid).children()
    other.send_signal(signal.SIGUSR1)
    assert process.end() == 0


def test_what_breaks_just_after_ctrl_c_is_not_begun_anew():
    process = AtTerminal(memory=60)
    process.press_ctrl_c()
    [other] = psutil.Process(process.pid).children()
    other.send_signal(signal.SIGSEGV)
    assert process.end() == -signal.SIGINT

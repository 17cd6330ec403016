"""Ctrl-C while a model is tried, read or measured: the command ends at once, without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import psutil
import pytest

from tests.e2e.test_third_engine import Home
from tests.waiting import until

pty = pytest.importorskip("pty")

SECONDS = 5.0  # one is meant; machines of tests are busy
STAGES = {"tried": "load 1", "read": "load 2", "measured": "forward 2"}
KEY = b"\x03"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


class Run:
    """A command at a terminal of its own, whose engine stays in one call for ever."""

    def __init__(
        self, home: Home, stage: str, command: Sequence[str], *, alone: bool = False
    ) -> None:
        """Start it; `alone`: as by a program, without a terminal that has it in the foreground."""
        self.home = home
        self._keyboard, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "localspec", *command],
            env=home.environment | {"LOCALSPEC_TOY_STUCK": STAGES[stage], "TERM": "dumb"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            preexec_fn=os.setsid if alone else own_terminal,
        )
        os.close(terminal)
        until(lambda: home.calls.exists() and " stuck\n" in home.calls.read_text())

    @property
    def engine(self) -> psutil.Process:
        """Return the process that stays in its engine."""
        line = next(line for line in self.home.calls.read_text().splitlines() if "stuck" in line)
        return psutil.Process(int(line.split()[0]))

    def interrupt(self, how: str) -> None:
        if how == "key":
            os.write(self._keyboard, KEY)
        elif how.startswith("process"):
            self.process.send_signal(signal.SIGINT)
        else:
            os.killpg(self.process.pid, signal.SIGINT)

    def output(self) -> str:
        return b"".join(self._read()).decode().replace("^C", "")

    def _read(self) -> Iterator[bytes]:
        try:
            while data := os.read(self._keyboard, 1 << 16):
                yield data
        except OSError:  # nobody has the terminal any more
            os.close(self._keyboard)


def own_terminal() -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("how", ["key", "process", "process alone", "group"])
@pytest.mark.parametrize("stage", list(STAGES))
def test_an_interrupt_ends_a_command_whatever_its_engine_does(home, stage, how):
    run = Run(home, stage, ["generate", str(home.model), "The par"], alone=how == "process alone")
    engine, began = run.engine, time.monotonic()
    run.interrupt(how)
    assert run.process.wait(timeout=60) == 130
    assert time.monotonic() - began < SECONDS
    words = run.output()
    assert "Traceback" not in words
    assert "localspec: parrot" not in words
    assert "ended" not in words
    until(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE)
    cache = home.path / "cache" / "localspec"
    assert not (cache / "last_error.json").exists()
    assert not any("cannot" in trial.read_text() for trial in cache.glob("trials/*.json"))


WAYS = ("key", "process", "process alone")
# Each command meets each stage and each way once; --long brings the others.
FIRST = {
    (stage, WAYS[(at + turn) % 3], command)
    for turn, command in enumerate(("chat", "serve"))
    for at, stage in enumerate(STAGES)
}


@pytest.mark.parametrize(
    ("stage", "how", "command"),
    [
        pytest.param(*each, marks=[] if each in FIRST else [pytest.mark.long])
        for each in product(STAGES, WAYS, ("chat", "serve"))
    ],
)
def test_a_chat_and_a_server_that_load_are_left_at_once(home, stage, how, command):
    run = Run(home, stage, [command, str(home.model)], alone=how == "process alone")
    began = time.monotonic()
    run.interrupt(how)
    assert run.process.wait(timeout=60) == 130
    assert time.monotonic() - began < SECONDS
    assert "Traceback" not in run.output()


def test_what_was_interrupted_works_the_next_time(home):
    run = Run(home, "tried", ["generate", str(home.model), "The par"])
    run.interrupt("key")
    run.process.wait(timeout=60)
    [(code, out, _)] = home.run(["generate", str(home.model), "The par", "--temperature", "0"])
    assert (code, out) == (0, "rot says what it was told, and nothing else. \n")


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say who sent a signal")
def test_a_server_that_answers_is_ended_by_an_interrupt_of_its_parent(home):
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "localspec", "serve", str(home.model), "--port", "0"],
        env=home.environment | {"TERM": "dumb"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=own_terminal,
    )
    os.close(terminal)
    words = b""
    while b"answering at" not in words:
        words += os.read(keyboard, 1 << 16)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    assert time.monotonic() - began < SECONDS
    os.close(keyboard)

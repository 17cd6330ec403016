"""What a user sees while a model is loaded."""

from __future__ import annotations

import io

import pytest

from localspec.console.progress.loading_line import CLEAR, LATE_SECONDS, LoadingLine
from localspec.running.runtime.phases import Phase


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Timers(list):
    """Timers that run out when a test says so."""

    def __call__(self, seconds, call):
        self.append(timer := Timer(seconds, call))
        return timer


class Timer:
    def __init__(self, seconds, call):
        self.seconds, self.call, self.runs = seconds, call, False

    def start(self):
        self.runs = True

    def cancel(self):
        self.runs = False


PHASES = [
    Phase("planning", "one.gguf"),
    Phase("trying", "one.gguf"),
    Phase("reading", "one.gguf"),
    Phase("reading", "one.gguf", 0.5),
    Phase("reading", "one.gguf", 0.5001),
    Phase("measuring", "one.gguf"),
]


def test_a_terminal_has_one_line_that_changes_and_is_gone_in_the_end(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with LoadingLine("one", out) as line:
        for phase in PHASES:
            line(phase)
    shown = [part.removesuffix("\033[0m") for part in out.getvalue().split(CLEAR + "\033[2m")]
    assert shown == [
        "",
        "loading one",
        "planning the memory for one.gguf",
        "trying one.gguf in a process of its own (the first time only)",
        "reading one.gguf",
        "reading one.gguf, 50%",
        "measuring one.gguf: the cost of drafts here (the first time only)\033[0m" + CLEAR,
    ]


def test_a_line_never_wraps(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    with LoadingLine("x" * 100, out):
        pass
    assert out.getvalue().count("x") == 20 - 1 - len("loading ")


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_elsewhere_only_what_takes_long_is_told(out, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out, timers = out(), Timers()
    with LoadingLine("one", out, timers) as line:
        for phase in PHASES:
            line(phase)
        assert [timer.seconds for timer in timers] == [LATE_SECONDS] * 4
        assert [timer.runs for timer in timers] == [False, False, False, True]
        assert out.getvalue() == ""
        timers[-1].call()
    assert not timers[-1].runs
    assert out.getvalue() == (
        "localspec: measuring one.gguf: the cost of drafts here (the first time only)\n"
    )


def test_a_phase_that_comes_twice_in_a_row_is_told_once():
    out, timers = io.StringIO(), Timers()
    with LoadingLine("one", out, timers) as line:
        for _ in range(2):
            line(PHASES[-1])
            timers[-1].call()
    assert len(timers) == 1

"""The progress of a measurement, in a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest

from localspec.console.progress.time_left import TimeLeft


class Terminal(io.StringIO):
    def isatty(self):
        return True


def counted(out, steps, **fields):
    """Count items, each of which takes so many seconds."""
    now = [0.0]

    def items():
        for seconds in steps:
            now[0] += seconds
            yield seconds

    left = TimeLeft("measuring", len(steps), out=out, clock=lambda: now[0], **fields)
    assert list(left(items())) == list(steps)
    return out.getvalue()


def test_without_a_terminal_there_is_a_line_a_minute_with_the_time_left():
    assert counted(io.StringIO(), [30.0] * 6).splitlines() == [
        "measuring: 0 of 6",
        "measuring: 2 of 6, about 2 min left",
        "measuring: 4 of 6, about 1 min left",
        "measuring: 6 of 6, about 0 s left",
    ]


def test_a_terminal_has_one_line_that_is_gone_in_the_end():
    shown = counted(Terminal(), [1.0, 1.0])
    assert shown == (
        "\rmeasuring: 0 of 2\033[K\rmeasuring: 1 of 2, about 1 s left\033[K"
        "\rmeasuring: 2 of 2, about 0 s left\033[K\r\033[K"
    )


def test_what_ends_by_the_clock_takes_no_longer_than_that():
    first, second, *_ = counted(io.StringIO(), [60.0] * 100, seconds=150.0).splitlines()
    assert first == "measuring: 0, about 2 min left"
    assert second == "measuring: 1, about 2 min left"


def test_what_is_made_however_late_it_is_takes_as_long_as_that():
    lines = counted(io.StringIO(), [60.0] * 5, seconds=30.0, least=5).splitlines()
    assert lines[1:3] == [
        "measuring: 1 of 5, about 4 min left",
        "measuring: 2 of 5, about 3 min left",
    ]


def test_the_line_is_gone_after_an_error_too():
    out = Terminal()

    def broken():
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(TimeLeft("measuring", 2, out=out)(broken()))
    assert out.getvalue().endswith("\r\033[K")

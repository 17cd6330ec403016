"""Lines that may still change, on terminals of all sizes, also of changing ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.apps.chat.terminal.canvas import Canvas
from tests.apps.chat.terminal import Terminal

LINES = st.lists(st.text("abc de", max_size=9).map(str.rstrip), max_size=9)
ABOVE = ["one", "two", "three"]


def canvas(terminal: Terminal) -> Canvas:
    for line in ABOVE:
        terminal.write(f"{line}\n")
    return Canvas(terminal, lambda: terminal.size)


@settings(max_examples=60)
@given(draws=st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6))
def test_what_is_settled_stays_and_only_the_last_open_lines_are_seen(draws):
    terminal = Terminal(20, 100)
    drawn = canvas(terminal)
    settled = [*ABOVE]
    for more, open_ in draws:
        drawn.draw(more, open_)
        settled += more
        shown = [*settled, *open_]
        while shown and not shown[-1]:
            shown.pop()
        assert terminal.text == shown
    drawn.draw(["end"])
    terminal.write("behind")
    assert terminal.text == [*settled, "end", "behind"]


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_open_lines_taller_than_the_screen_are_all_there_in_the_end(rows):
    terminal = Terminal(20, rows)
    drawn = canvas(terminal)
    for count in range(1, 12):
        drawn.draw((), [f"line {at}" for at in range(count)])
    drawn.draw([f"line {at}" for at in range(12)])
    assert terminal.text == [*ABOVE, *(f"line {at}" for at in range(12))]


def test_lines_that_scrolled_away_and_changed_are_neither_lost_nor_repeated():
    terminal = Terminal(20, 3)
    drawn = canvas(terminal)
    drawn.draw((), ["**aaa bbb", "ccc ddd", "eee fff", "ggg hhh", "iii"])
    drawn.draw(["aaa bbb ccc", "ddd eee fff ggg", "hhh iii jjj"])
    assert "".join(terminal.text).replace(" ", "").count("ddd") >= 1
    words = " ".join(terminal.text).split()
    assert {"aaa", "bbb", "ccc", "ddd", "eee", "fff", "ggg", "hhh", "iii", "jjj"} <= {
        word.strip("*") for word in words
    }


@pytest.mark.parametrize("to", [(10, 12), (40, 12), (20, 6), (20, 30), (12, 5), (60, 40)])
def test_a_terminal_that_was_resized_keeps_what_is_above_the_answer(to):
    terminal = Terminal(20, 12)
    drawn = canvas(terminal)
    drawn.draw(["settled"], [f"{at} aaaaaaaaaaaaaaaa" for at in range(5)])
    terminal.resize(*to)
    width = to[0] - 1
    before = terminal.text[: terminal.screen.cursor.y - 4]
    drawn.draw((), [f"{at} bbbb"[:width] for at in range(7)])
    assert terminal.text[: len(before)] == before
    assert [line for line in terminal.text if "b" in line] == [f"{at} bbbb" for at in range(7)]


def reflowed(columns: int, lines: list[str]) -> list[str]:
    """The rows of lines in a terminal that puts them anew when it is resized, as most do."""
    return [
        line[at : at + columns] for line in lines for at in range(0, max(len(line), 1), columns)
    ]


@pytest.mark.parametrize("columns", [7, 10, 19, 20, 40])
def test_going_up_after_a_reflow_does_not_reach_what_is_above(columns):
    old, new = Terminal(20, 50), Terminal(columns, 50)
    drawn = canvas(old)
    open_ = [f"{at} aaaaaaaaaaaaaaaa" for at in range(5)]
    drawn.draw((), open_)
    start = len(old.getvalue())
    old.resize(columns, 50)
    drawn.draw((), ["bbbbb", "ccccc"])
    new.write("\n".join(reflowed(columns, [*ABOVE, *open_])))
    new.write(old.getvalue()[start:])
    assert new.text[: len(ABOVE)] == ABOVE
    assert new.text[-2:] == ["bbbbb", "ccccc"]


def test_what_was_typed_behind_the_last_line_is_wiped_by_the_next_drawing():
    terminal = Terminal(20, 10)
    drawn = canvas(terminal)
    drawn.draw((), ["a", "b"])
    terminal.write("^C")
    drawn.draw((), ["a", "b more"])
    assert terminal.text == [*ABOVE, "a", "b more"]


def test_lines_that_did_not_change_are_not_written_again():
    terminal = Terminal(40, 20)
    drawn = canvas(terminal)
    drawn.draw((), ["first", "second"])
    written = len(terminal.getvalue())
    drawn.draw((), ["first", "second"])
    assert len(terminal.getvalue()) == written
    drawn.draw((), ["first", "second", "third"])
    assert "first" not in terminal.getvalue()[written:]


def test_lines_that_a_narrower_terminal_cut_are_whole_again_in_a_wider_one():
    terminal = Terminal(20, 10)
    drawn = canvas(terminal)
    open_ = ["a" * 15, "b" * 15]
    drawn.draw((), open_)
    terminal.resize(10, 10)
    terminal.resize(30, 10)
    drawn.draw((), open_)
    assert terminal.text == [*ABOVE, *open_]


def test_a_line_that_scrolled_away_is_not_drawn_again_for_a_sign_that_changed_in_it():
    terminal = Terminal(20, 3)
    drawn = canvas(terminal)
    drawn.draw((), ["a 0", "a 1", "a 2", "a 3"])
    drawn.draw(["a-0", "a-1", "a-2", "a-3"])
    assert terminal.text == [*ABOVE, "a 0", "a-1", "a-2", "a-3"]

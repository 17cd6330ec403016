"""An answer while it comes: on terminals, in pipes, and in how much time."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from localspec.apps.chat.terminal.canvas import Canvas
from localspec.apps.chat.terminal.ink import Ink, bare
from localspec.apps.chat.terminal.screen import Screen
from localspec.apps.chat.terminal.view import LATEST, SHARE, SPINNER, DrawnView, TypedView
from localspec.console.speakers.speaker import Piece
from tests.apps.chat.terminal import Terminal


class Clock:
    """Stands still but for what the writing of lines is said to take."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Slow(Terminal):
    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__(80, 24)
        self.clock, self.seconds = clock, seconds
        self.drawn: list[float] = []

    def write(self, text: str) -> int:
        self.clock.now += self.seconds
        self.drawn.append(self.clock.now)
        return super().write(text)


def view(terminal: Terminal, clock: Clock, *, lens: bool = False) -> DrawnView:
    canvas = Canvas(terminal, lambda: terminal.size)
    width = lambda: terminal.size[0] - 1  # noqa: E731
    return DrawnView(canvas, Ink(colours=True), width, lens=lens, clock=clock)


def stream(drawn: DrawnView, clock: Clock, seconds: float) -> Iterator[float]:
    """Two hundred tokens a second, and when each was there."""
    begun = clock()
    for at in range(int(seconds * 200)):
        due = begun + at / 200
        while clock() < due:
            clock.now += max(min(drawn.wait(None), due - clock()), 1e-4)
        drawn.add(Piece(f"word{at} "))
        yield due


@pytest.mark.parametrize("took", [0.0001, 0.001, 0.005, 0.014])
def test_drawing_takes_its_share_of_the_time_however_long_it_takes(took):
    clock = Clock()
    terminal = Slow(clock, took)
    begun = clock()
    for _ in stream(view(terminal, clock), clock, 6):
        pass
    assert len(terminal.drawn) * took <= (SHARE + 0.005) * (clock() - begun)


@pytest.mark.parametrize("took", [0.001, 0.014, 0.1])
def test_what_came_is_seen_within_half_a_second(took):
    clock = Clock()
    terminal = Slow(clock, took)
    for _ in stream(view(terminal, clock), clock, 6):
        pass
    gaps = [b - a for a, b in zip(terminal.drawn, terminal.drawn[1:], strict=False)]
    assert max(gaps) <= LATEST + took + 0.01


def test_a_single_slow_drawing_does_not_hold_up_those_after_it_for_long():
    clock = Clock()
    terminal = Slow(clock, 0.0)
    drawn = view(terminal, clock)
    for due in stream(drawn, clock, 3):
        terminal.seconds = 0.2 if due < 100.05 else 0.0001
    assert max(b - a for a, b in zip(terminal.drawn, terminal.drawn[1:], strict=False)) < 0.65


def test_a_spinner_turns_until_something_comes_and_leaves_no_trace():
    clock = Clock()
    terminal = Slow(clock, 0.0)
    drawn = view(terminal, clock)
    seen = set()
    for _ in range(25):
        drawn.wait(None)
        seen.add(terminal.text[0][0])
        clock.now += 0.1
    assert seen == {*SPINNER}
    assert terminal.text == [f"{terminal.text[0][0]} 2 s"]
    drawn.add(Piece("Hello"))
    drawn.close()
    assert terminal.text == ["Hello"]


def test_an_answer_of_nothing_leaves_nothing():
    clock = Clock()
    terminal = Slow(clock, 0.0)
    drawn = view(terminal, clock)
    drawn.wait(None)
    drawn.close()
    assert terminal.text == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (80, "reading 50% [############............]"),
        (24, "reading 50% [###....]"),
        (14, "reading 50%"),
    ],
)
def test_reading_a_long_prompt_is_a_bar_as_wide_as_there_is_room(columns, said):
    clock = Clock()
    terminal = Terminal(columns, 5)
    drawn = view(terminal, clock)
    clock.now += 3
    drawn.wait(0.5)
    [line] = terminal.text
    assert line[2:] == said
    assert len(line) < columns


def test_a_thought_stands_above_the_answer():
    terminal = Terminal()
    drawn = view(terminal, Clock())
    for piece in (Piece("\nwell\n", "thought"), Piece("**So**")):
        drawn.add(piece)
    drawn.close()
    assert terminal.text == ["well", "", "So"]


def test_by_source_the_text_is_shown_as_it_is():
    terminal = Terminal()
    drawn = view(terminal, Clock(), lens=True)
    drawn.add(Piece("**So** it", spans=[(4, "ngram"), (5, "target")]))
    drawn.close()
    assert terminal.text == ["**So** it"]
    assert "\x1b[33m**So\x1b[0m** it" in terminal.getvalue()


@pytest.mark.parametrize("to", [(30, 24), (200, 24), (80, 6), (80, 60)])
def test_an_answer_goes_on_in_a_terminal_of_another_size(to):
    clock = Clock()
    terminal = Slow(clock, 0.0)
    terminal.write("above\n")
    drawn = view(terminal, clock)
    for at in range(40):
        drawn.add(Piece(f"word{at} "))
        clock.now += 1
        drawn.wait(None)
        if at == 20:
            terminal.resize(*to)
    drawn.close()
    text = "\n".join(terminal.text)
    assert text.startswith("above")
    assert all(f"word{at}" in text for at in range(40))


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_pipes_get_the_text_as_it_is_and_terminals_nothing_to_obey():
    for out, said in ((io.StringIO(), "\x1b[2Jhi\n"), (Tty(), "␛[2Jhi\n")):
        typed = TypedView(out)
        typed.add(Piece("\x1b[2Jhi"))
        typed.close()
        assert out.getvalue() == said


def test_pipes_take_what_their_encoding_has():
    raw = io.BytesIO()
    typed = TypedView(io.TextIOWrapper(raw, encoding="ascii"))
    typed.add(Piece("aé\ud800"))
    typed.close()
    assert raw.getvalue() == b"a??\n"


def test_pipes_get_thoughts_apart_or_not_at_all():
    for thoughts, said in ((True, "hm\n\nso\n"), (False, "so\n")):
        out = io.StringIO()
        typed = TypedView(out, thoughts=thoughts)
        for piece in (Piece("hm", "thought"), Piece("so")):
            typed.add(piece)
        typed.close()
        assert out.getvalue() == said


def console(**env: str) -> Console:
    return Console(file=Terminal(), force_terminal=True, width=40, height=10, _environ=env)


@pytest.mark.parametrize(
    ("env", "moves", "colours"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "unknown"}, False, False),
    ],
)
def test_what_a_terminal_can_do_decides_how_answers_are_shown(env, moves, colours):
    screen = Screen(console(**env))
    assert (screen.moves, screen.colours) == (moves, colours)
    assert isinstance(screen.view(lens=False), DrawnView if moves else TypedView)


def test_without_colours_there_are_none():
    terminal = Terminal(40, 10)
    plain = Console(
        file=terminal,
        force_terminal=True,
        width=40,
        height=10,
        _environ={"TERM": "xterm", "NO_COLOR": "1"},
    )
    Screen(plain).markdown("# Title\n\n`code` [a](b)\n\n- x\n\n```py\nreturn 1\n```")
    codes = {part.partition("m")[0] for part in terminal.getvalue().split("\x1b[") if "m" in part}
    assert not {"31", "32", "33", "34", "35", "36"} & {
        code for each in codes for code in each.split(";")
    }
    assert "`code` a (b)" in [bare(line) for line in terminal.text]

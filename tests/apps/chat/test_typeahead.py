"""Keys that nobody waited for: lines to send, or a draft; and long texts, drawn as a sign."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack

import pytest
from prompt_toolkit.input import create_pipe_input

from localspec.apps.chat.terminal.editor import WAITS
from localspec.apps.chat.terminal.typeahead import MARKED
from localspec.apps.chat.terminal.typed_lines import LEAVE, first_line, judged, text_of
from tests.apps.chat.pty_session import CTRL_C, CTRL_D, ENTER, Person

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")

LINES = [f"this is pasted line number {at}" for at in range(500)]
PASTE, TYPED = "\n".join(LINES), ENTER.join(LINES) + ENTER
BEGUN, ENDED = "\x1b[200~", "\x1b[201~"
SPINNING = "⠋"
HEARD = f"500 lines, {len(PASTE)} characters, the last: {LINES[-1]}"


@pytest.fixture
def early(tmp_path):
    """A person whose model is not loaded, and does not answer, before `loaded` and `answers`."""
    with ExitStack() as gone:

        def come() -> Person:
            person = Person(tmp_path, model="late", context=100_000)
            gone.callback(person.gone)
            return person

        yield come


@pytest.mark.parametrize(
    ("when", "typed"),
    [
        ("started", TYPED),  # before pastes are marked
        ("loading", TYPED),
        ("loading", BEGUN + TYPED + ENDED),
        ("answering", TYPED),
        ("answering", BEGUN + TYPED + ENDED),
    ],
    ids=["started", "loading", "loading-marked", "answering", "answering-marked"],
)
def test_what_comes_before_a_prompt_is_one_draft_and_no_question(early, tmp_path, when, typed):
    person = early()
    if when != "started":
        person.wait(MARKED)
    if when == "answering":
        (tmp_path / "loaded").touch()
        person.prompted()
        before = len(person.raw)
        person.type("poem" + ENTER)
        person.wait(SPINNING, since=before)
    before = len(person.raw)
    person.type(typed)
    assert person.kept == []
    (tmp_path / "loaded").touch()
    (tmp_path / "answers").touch()
    person.prompted(since=before)
    person.wait("[pasted 500 lines]", since=before)
    person.shows(f"> [pasted 500 lines]{WAITS}")
    assert [text for role, text in (person.said if person.kept else []) if role == "user"] == (
        ["poem"] if when == "answering" else []
    )
    assert HEARD in person.say("")
    assert person.said[-2] == ("user", PASTE)


def test_a_line_that_was_typed_while_the_model_loads_is_sent_when_it_is_there(early, tmp_path):
    person = early()
    person.wait(MARKED)
    person.type("poem" + ENTER)
    (tmp_path / "answers").touch()
    (tmp_path / "loaded").touch()
    person.wait("violets")
    person.prompted(since=person.raw.index("violets"))
    assert "> poem" in [line.rstrip() for line in person.text.splitlines()]
    assert WAITS not in person.raw
    assert [text for role, text in person.said if role == "user"] == ["poem"]
    assert "> poem" in person.say("\x1b[A")  # it is in the history, too


def test_a_line_that_was_typed_during_an_answer_is_sent_after_it(early, tmp_path):
    (tmp_path / "loaded").touch()
    person = early()
    person.prompted()
    before = len(person.raw)
    person.type("poem" + ENTER)
    person.wait(SPINNING, since=before)
    person.type("again" + ENTER)
    (tmp_path / "answers").touch()
    person.wait("You said: again")
    person.prompted(since=person.raw.index("You said: again"))
    asked = [text for role, text in person.said if role == "user"]
    assert asked == ["poem", "again"]


def test_what_no_enter_ended_waits_and_a_faint_word_says_so_until_it_is_touched(early, tmp_path):
    person = early()
    person.wait(MARKED)
    person.type("half a line")
    (tmp_path / "answers").touch()
    (tmp_path / "loaded").touch()
    person.prompted()
    person.shows(f"> half a line{WAITS}")
    person.type(", whole")
    person.shows("> half a line, whole")
    assert "You said: half a line, whole" in person.say("")
    assert WAITS not in person.text


def test_a_paste_that_comes_half_before_a_prompt_and_half_after_it_is_one(early, tmp_path):
    person = early()
    person.wait(MARKED)
    person.type(BEGUN + TYPED[:3000])
    (tmp_path / "loaded").touch()
    (tmp_path / "answers").touch()
    person.prompted()
    person.type(TYPED[3000:].rstrip() + ENDED)
    person.wait("[pasted 500 lines]")
    shown = person.say("")  # with what the terminal said of its cursor in between
    assert f"the last: {LINES[-1]}" in shown
    assert [role for role, _ in person.said] == ["user", "assistant"]
    assert person.said[0][1].startswith("\n".join(LINES[:90]))


@pytest.mark.parametrize("typed", [TYPED, BEGUN + TYPED + ENDED], ids=["unmarked", "marked"])
def test_ctrl_c_drops_what_was_typed_during_an_answer(early, tmp_path, typed):
    (tmp_path / "loaded").touch()
    person = early()
    person.prompted()
    before = len(person.raw)
    person.type("poem" + ENTER)
    person.wait(SPINNING, since=before)
    person.type(typed + CTRL_C)
    (tmp_path / "answers").touch()
    person.prompted(since=before)
    person.shows("\n> poem", "\n>")  # the question, if it has no answer
    assert "pasted" not in person.raw
    asked = person.said if person.kept else []
    assert [text for role, text in asked if role == "user"] in ([], ["poem"])


def test_what_is_typed_after_ctrl_c_is_sent_when_the_answer_has_stopped(early, tmp_path):
    """A model may be at it for a minute, and what was typed meanwhile was lost."""
    (tmp_path / "loaded").touch()
    person = early()
    person.prompted()
    before = len(person.raw)
    person.type("poem" + ENTER)
    person.wait(SPINNING, since=before)
    person.type("gone" + CTRL_C)
    person.wait("stopping", since=before)
    person.type("again" + ENTER)
    (tmp_path / "answers").touch()
    person.wait("You said: again")
    person.prompted(since=person.raw.index("You said: again"))
    assert person.said[-2] == ("user", "again")
    assert "gone" not in person.text


def test_ctrl_d_during_an_answer_leaves_after_it(early, tmp_path):
    (tmp_path / "loaded").touch()
    person = early()
    person.prompted()
    before = len(person.raw)
    person.type("poem" + ENTER)
    person.wait(SPINNING, since=before)
    person.type(CTRL_D)
    (tmp_path / "answers").touch()
    assert person.end() == 0
    assert [role for role, _ in person.said] == ["user", "assistant"]


def test_keys_stay_off_the_terminal_after_a_shell_had_it(early):
    """As after Ctrl-Z and `fg`."""
    person = early()
    person.wait(MARKED)
    person.unechoed()
    person.echo()
    person.process.send_signal(signal.SIGCONT)
    person.unechoed()


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("hi", "hi"),
        ("hi\n\n", "hi"),
        ("hx\x7fi\x1b[A\x1b[1;1R", "hi"),
        ("\x1b[200~a\rb\x1b[201~\rc", "a\nb\nc"),
        ("a\tb", "a\tb"),
        ("größe 😀", "größe 😀"),
        ("\x04", LEAVE),
    ],
)
def test_keys_write_what_they_would_have_at_a_prompt(typed, text):
    with create_pipe_input() as keyboard:
        keyboard.send_text(typed)
        assert text_of(keyboard.read_keys()) == text


def test_a_paste_at_a_prompt_is_one_message_where_the_terminal_does_not_mark_it(early, tmp_path):
    (tmp_path / "loaded").touch()
    (tmp_path / "answers").touch()
    person = early()
    person.prompted()
    assert HEARD in person.say(TYPED.removesuffix(ENTER))
    assert [role for role, _ in person.said] == ["user", "assistant"]


def lines_of(*bursts):
    """Return the lines that are sent of bursts of keys, and the draft that is left."""
    with create_pipe_input() as keyboard:
        read = []
        for burst in bursts:
            keyboard.send_text(burst)
            read.append(keyboard.read_keys())
    line, sent = first_line(judged(read)), []
    while line.is_sent:
        sent.append(line.text)
        line = first_line(line.after)
    return sent, line.text


@pytest.mark.parametrize(
    ("bursts", "sent", "draft"),
    [
        (["h", "i", "\r"], ["hi"], ""),
        (["hi\r", "/why\r", "mo"], ["hi", "/why"], "mo"),
        (["\r", " \r", "hi\r"], ["hi"], ""),
        (["a\rb\r"], [], "a\nb"),  # more came at once behind Enter: a paste without marks
        (["a\rb\rc", "d\re\r"], [], "a\nb\ncd\ne"),
        (["a\rb\r", "c\r"], [], "a\nb\nc"),  # whose last line came late
        (["a\rb\r", "c", "\r"], ["a\nb\nc"], ""),
        (["\x1b[200~a\rb\r\x1b[201~"], [], "a\nb"),
        (["\x1b[200~a\rb\x1b[201~", "\r"], ["a\nb"], ""),
        (["a", "\x1b\r", "b\r"], ["a\nb"], ""),
        (['"""a\r', 'b"""\r'], ['"""a\nb"""'], ""),
        (["hi\r", "\x04"], ["hi"], LEAVE),
    ],
)
def test_enter_sends_a_line_and_a_paste_waits(bursts, sent, draft):
    assert lines_of(*bursts) == (sent, draft)

"""Keys that nobody waited for: one draft, whenever they come; and long texts, drawn as a sign."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pytest

from tests.chat.pty_session import CTRL_C, ENTER, Person

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


@pytest.mark.parametrize("typed", [TYPED, BEGUN + TYPED + ENDED], ids=["unmarked", "marked"])
@pytest.mark.parametrize("when", ["started", "loading", "answering"])
def test_what_comes_before_a_prompt_is_one_draft_and_no_question(early, tmp_path, when, typed):
    person = early()
    if when != "started":
        person.wait("loading late")
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
    person.settle(0.1)
    assert person.text.endswith("> [pasted 500 lines]")
    assert [text for role, text in (person.said if person.kept else []) if role == "user"] == (
        ["poem"] if when == "answering" else []
    )
    assert HEARD in person.say("")
    assert person.said[-2] == ("user", PASTE)


def test_a_paste_that_comes_half_before_a_prompt_and_half_after_it_is_one(early, tmp_path):
    person = early()
    person.wait("loading late")
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
    person.settle(0.1)
    assert person.text.endswith(("\n> poem", "\n>")), "the question, if it has no answer"
    assert "pasted" not in person.raw
    asked = person.said if person.kept else []
    assert [text for role, text in asked if role == "user"] in ([], ["poem"])

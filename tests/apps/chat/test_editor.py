"""Typing: three quotes, and a history that need not be there."""

from __future__ import annotations

import os
import stat
import threading
import time
from contextlib import contextmanager

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from localspec.apps.chat.session import folder
from localspec.apps.chat.terminal.editor import (
    Asking,
    Completing,
    Typing,
    history,
    is_open,
    unquote,
)
from localspec.apps.chat.terminal.folds import MAX_CHARACTERS, MAX_LINES, Folds
from localspec.apps.chat.terminal.typed_lines import TypedLine


@pytest.mark.parametrize(
    ("text", "open_", "message"),
    [
        ("hi", False, "hi"),
        ('"""', True, '"""'),
        ('"""hi', True, '"""hi'),
        ('"""hi"""', False, "hi"),
        ('  """\nhi\n  there\n"""\n', False, "hi\n  there"),
        ('""""""', False, ""),
        ('say """hi', False, 'say """hi'),
    ],
)
def test_three_quotes_begin_a_message_that_three_quotes_end(text, open_, message):
    assert is_open(text) == open_
    assert unquote(text) == message


def test_a_plain_terminal_takes_lines_and_quotes(monkeypatch):
    lines = iter(["hi", '"""a', "b", '"""'])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    asking = Asking()
    assert [asking.read(), asking.read()] == ["hi", "a\nb"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def test_the_history_is_its_owners_and_outlives_a_full_disk(home, monkeypatch):
    kept = history(Folds())
    assert isinstance(kept, FileHistory)
    kept.append_string("one\ntwo")
    place = folder().parent / "history"
    if os.name != "nt":
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert list(history(Folds()).load_history_strings()) == ["one\ntwo"]
    place.unlink()
    place.mkdir()
    kept.append_string("three")
    assert kept.get_strings()[-1] == "three"


@pytest.mark.parametrize("where", ["localspec", "localspec/history"])
def test_where_no_history_can_be_kept_there_is_one_until_one_leaves(home, where):
    place = home / where
    if where == "localspec":
        place.write_text("a file where the folder should be")
    else:
        place.mkdir(parents=True)
    assert isinstance(history(Folds()), InMemoryHistory)


LONG = "\n".join(f"row {at}" for at in range(MAX_LINES + 1))


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        (LONG, "[pasted 11 lines]"),
        (LONG + "\n", "[pasted 11 lines]"),
        ("x" * (MAX_CHARACTERS + 1), "[pasted 1,001 characters]"),
    ],
)
def test_a_long_text_is_drawn_as_a_sign_and_stays_whole(text, drawn):
    folds = Folds()
    sign = folds.folded(text)
    assert len(sign) == 1
    assert folds.drawn(sign) == drawn
    text = text.rstrip("\n")
    assert folds.whole(f"see {sign}?") == f"see {text}?"
    assert folds.folded(f"see {text}?") == f"see {sign}?", "as when a question is given back"
    assert folds.folded(f"{text}\n") == sign, "as when it is pasted again"
    assert folds.folded("x" * MAX_CHARACTERS) == "x" * MAX_CHARACTERS


def test_there_are_signs_for_a_thousand_long_texts_and_then_they_are_drawn():
    folds = Folds()
    texts = [LONG + str(at) for at in range(1030)]
    signs = [folds.folded(text) for text in reversed(texts)]
    assert len({*signs}) == 1030
    assert [folds.whole(sign) for sign in signs] == texts[::-1]
    assert signs[-1] == texts[0]


class Keyboard:
    """A prompt whose keys come from a test, and the lines that it drew."""

    def __init__(self, keyboard):
        self.keyboard = keyboard
        self.typed = ""

    @contextmanager
    def released(self, *, whole=False):
        yield TypedLine(self.typed, is_sent=False)

    def waits(self):
        return False


@pytest.fixture
def typing(home):
    """Type keys at a prompt; the message that they make."""
    with create_pipe_input() as keyboard, create_app_session(output=DummyOutput()):
        ahead = Keyboard(keyboard)
        made = Typing(Some(), ahead)

        def typed(keys, begun="", ahead_of_it=""):
            ahead.typed = ahead_of_it
            keyboard.send_text(keys)
            return made.read(begun)

        def later(place, keys):
            end = time.monotonic() + 10  # seconds, after which the test fails rather than hangs
            while not place.exists() and time.monotonic() < end:
                time.sleep(0.005)
            keyboard.send_text(keys)

        typed.later = later
        yield typed


def paste(text):
    return f"\x1b[200~{text}\x1b[201~"


LEFT, BACKSPACE, UP, ENTER = "\x1b[D", "\x7f", "\x1b[A", "\r"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("see " + paste(LONG) + " now?", f"see {LONG} now?"),
        ("see " + paste(LONG) + BACKSPACE + "it", "see it"),
        (paste(LONG) + LEFT + "see ", f"see {LONG}"),
        (paste(LONG) + paste(LONG), LONG + LONG),
        (paste("a\r\nb\rc"), "a\nb\nc"),
        ("a\rb\rc", "a\nb\nc"),  # which no terminal marked
        (paste(f'"""{LONG}"""'), f'"""{LONG}"""'),
    ],
)
def test_a_paste_is_one_character_to_who_edits_and_whole_in_what_is_sent(typing, keys, message):
    assert typing(keys + ENTER) == message


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such editor")
def test_an_editor_gets_pastes_in_full_and_they_are_folded_again(typing, home, monkeypatch):
    editor = home / "editor"
    editor.write_text(f'#!/bin/sh\ncp "$1" {home}/seen\nprintf " edited" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    sender = threading.Thread(target=typing.later, args=(home / "seen", BACKSPACE + ENTER))
    sender.start()
    message = typing("see " + paste(LONG) + "\x18\x05")
    sender.join()
    assert (home / "seen").read_text() == f"see {LONG}"
    assert message == f"see {LONG} edite"


def test_a_question_that_is_given_back_and_what_was_typed_ahead_are_one_draft(typing):
    assert typing(ENTER, "given back", "and more") == "given back\nand more"
    assert typing(BACKSPACE + "!" + ENTER, f"see {LONG}?") == "!"  # which was folded whole
    typing(paste(LONG) + ENTER)
    assert typing(BACKSPACE + "!" + ENTER, f"see {LONG}?") == f"see {LONG}!"


def test_the_history_keeps_whole_texts_and_shows_them_folded(typing, home):
    typing(paste(LONG) + " now?" + ENTER)
    text = (home / "localspec" / "history").read_text()
    assert "+row 3\n" in text
    assert typing(UP + BACKSPACE + "!" + ENTER) == f"{LONG} now!"
    [first, _] = history(folds := Folds()).load_history_strings()
    assert (len(first), folds.whole(first)) == (1, f"{LONG} now!")


class Some:
    def names(self):
        return [("/file", "a file"), ("/find", "a word")]

    def values(self, command):
        return None if command == "/file" else ("one", "other")


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("/fi", ["/file", "/find"]),
        ("/fil", ["/file"]),
        ("/find o", ["one", "other"]),
        ("/file no", ["tes.txt"]),
        ("see @no", ["tes.txt"]),
        ("@no", ["tes.txt"]),
        ("me@no", []),
        ("@no and", []),
        ("no", []),
        ("text\n/fi", []),
    ],
)
def test_commands_their_values_and_paths_are_completed(tmp_path, monkeypatch, text, completions):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    offered = Completing(Some()).get_completions(Document(text), CompleteEvent())
    assert [each.text for each in offered] == completions

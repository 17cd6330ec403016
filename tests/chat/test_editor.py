"""Typing: three quotes, and a history that need not be there."""

from __future__ import annotations

import os
import stat

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory

from localspec.chat.session import folder
from localspec.chat.terminal.editor import Asking, Completing, history, is_open, unquoted


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
    assert unquoted(text) == message


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
    kept = history()
    assert isinstance(kept, FileHistory)
    kept.append_string("one\ntwo")
    place = folder().parent / "history"
    if os.name != "nt":
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert list(history().load_history_strings()) == ["one\ntwo"]
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
    assert isinstance(history(), InMemoryHistory)


class Some:
    def names(self):
        return [("/file", "a file"), ("/find", "a word")]

    def values(self, command):
        return None if command == "/file" else ("one", "other")


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_commands_their_values_and_paths_are_completed(tmp_path, monkeypatch, text, found):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    offered = Completing(Some()).get_completions(Document(text), CompleteEvent())
    assert [each.text for each in offered] == found

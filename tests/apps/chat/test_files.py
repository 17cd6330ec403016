"""Files in messages: those that are meant, if they are text."""

from __future__ import annotations

import pytest

from localspec.apps.chat import files
from localspec.base.errors import UsageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("milk\n")
    (tmp_path / "two words.txt").write_text("bread")
    return tmp_path


@pytest.mark.parametrize(
    ("question", "paths"),
    [
        ("@notes.txt", ["notes.txt"]),
        ("what is in @notes.txt?", ["notes.txt"]),
        ("(in @notes.txt), @notes.txt!", ["notes.txt"]),
        ('read @"two words.txt" and @notes.txt', ["two words.txt", "notes.txt"]),
        ("mail me@notes.txt", []),
        ("@nobody @. @/ @~ @ @~nobody/notes.txt", []),
        ("@" + "long" * 2000 + " @a\0b", []),
    ],
)
def test_a_question_names_files_that_are_there(here, question, paths):
    assert files.mentioned_files(question) == paths


@pytest.mark.parametrize(
    ("question", "paths"),
    [
        ("@note.txt and @notes.txt?", ["note.txt"]),
        ('(in @"two word.txt"), @./src, @/none/x!', ["two word.txt", "./src", "/none/x"]),
        ("@somebody. @angular/core me@note.txt @" + "long" * 2000, []),
    ],
)
def test_a_question_that_names_a_file_wrongly_is_told(here, question, paths):
    assert files.missing(question) == paths


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none.txt", "is not there"),
        (".", "is no file"),
        ("latin.txt", "no text in UTF-8: see its byte 1"),
        ("zero.txt", "zero byte"),
        ("large.txt", "4,194,305 bytes; at most 4,194,304"),
        ("long" * 2000, "cannot be read"),
        ("a\0b", "is not there|cannot be read"),
        ("~nobody-of-this-name/x", "is not there"),
    ],
)
def test_what_cannot_be_read_is_said_why(here, path, why):
    (here / "latin.txt").write_bytes(b"h\xe9")
    (here / "zero.txt").write_bytes(b"a\0b")
    with (here / "large.txt").open("wb") as file:
        file.truncate(files.LARGEST + 1)
    with pytest.raises(UsageError, match=why):
        files.text_of(path)


def test_a_file_cannot_end_its_own_fence():
    quoted = files.quote("a.md", "````\ncode\n````")
    assert quoted == "a.md:\n`````\n````\ncode\n````\n`````"
    assert files.quote("b", "x\n") == "b:\n```\nx\n```"

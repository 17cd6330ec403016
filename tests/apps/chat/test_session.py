"""Conversations that are kept, and files that are anything but one."""

from __future__ import annotations

import json
import os
import stat

import pytest

from localspec.apps.chat import session
from localspec.apps.chat.session import ChatMessage, Session
from localspec.base.errors import LocalSpecError, UsageError

GOOD = {
    "version": 1,
    "model": "tiny",
    "system": "",
    "said": [
        {"role": "user", "content": "hi", "thought": "", "stopped": False, "files": {}},
        {"role": "assistant", "content": "ho", "thought": "", "stopped": False, "files": {}},
    ],
    "forgotten": 0,
    "wishes": {},
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def talked(model="tiny", *words):
    messages = [
        ChatMessage("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(words)
    ]
    return Session(model, said=messages)


def kept(*words, model="tiny", at=0):
    screen = talked(model, *words)
    screen.keep()
    place = session.folder() / f"{screen.name}.json"
    os.utime(place, (at, at))
    return place


def test_a_conversation_comes_back_as_it_was():
    one = Session("tiny", "be brief", wishes={"seed": "3"}, forgotten=1)
    files = {"a.py": "print()\n"}
    one.said = [
        ChatMessage("user", "look", files=files),
        ChatMessage("assistant", "é", "hm", stopped=True),
    ]
    one.keep()
    latest, notices = session.last()
    assert (latest, notices) == (one, [])


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_nobody_else_can_read_it():
    place = kept("hi", "ho")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


def test_what_is_half_written_is_never_found():
    kept("hi", "ho")
    (session.folder() / ".new.json.part").write_text("{")
    assert [each.suffix for each in session.folder().glob("*.json")] == [".json"]
    assert session.last()[1] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no conversation"),
        ("{", "no conversation"),
        ("[" * 100_000, "no conversation"),
        ('{"version": 1}', "no 'said'"),
        ("[]", "no JSON object"),
        ("null", "no JSON object"),
        (json.dumps(GOOD | {"version": 2}), "another version"),
        (json.dumps(GOOD | {"version": "x" * 10_000}), "another version"),
        (json.dumps(GOOD | {"said": {}}), "other types"),
        (json.dumps(GOOD | {"said": ["hi"]}), "no JSON object"),
        (json.dumps(GOOD | {"said": [{"role": "user"}]}), "no 'content'"),
        (json.dumps(GOOD | {"said": [GOOD["said"][0] | {"role": "system"}]}), "neither user"),
        (json.dumps(GOOD | {"said": [GOOD["said"][0] | {"content": 1}]}), "should be text"),
        (json.dumps(GOOD | {"said": [GOOD["said"][0] | {"files": {"a": []}}]}), "should be text"),
        (json.dumps(GOOD | {"forgotten": "all"}), "other types"),
        (json.dumps(GOOD | {"wishes": ["seed"]}), "other types"),
        (json.dumps(GOOD | {"model": ["x" * 10_000]}), "should be text"),
        ('{"version": ' + "9" * 5000 + "}", "no conversation"),
    ],
)
def test_a_file_that_is_no_conversation_is_refused_in_one_line(tmp_path, text, why):
    place = tmp_path / "any.json"
    place.write_text(text)
    with pytest.raises(UsageError, match=why) as refused:
        session.load(place)
    assert len(str(refused.value)) < 500


def test_what_is_no_file_or_too_large_or_no_text_is_refused(tmp_path):
    for place, why in ((tmp_path, "is no file"), (tmp_path / "none", "is not there")):
        with pytest.raises(UsageError, match=why):
            session.load(place)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(session.LARGEST + 1)
    with pytest.raises(UsageError, match="67,108,865 bytes; at most 67,108,864"):
        session.load(tmp_path / "large")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="no conversation"):
        session.load(tmp_path / "bytes")


def test_halves_of_characters_and_wrong_counts_do_no_harm(tmp_path):
    messages = [GOOD["said"][0] | {"content": "a\ud800b"}]
    (tmp_path / "odd.json").write_text(json.dumps(GOOD | {"said": messages, "forgotten": 10**9}))
    loaded = session.load(tmp_path / "odd.json")
    assert loaded.said[0].content == "a\N{REPLACEMENT CHARACTER}b"
    assert loaded.forgotten == 1
    (tmp_path / "odd.json").write_text(json.dumps(GOOD | {"forgotten": -5}))
    assert session.load(tmp_path / "odd.json").forgotten == 0


def test_a_broken_last_one_is_passed_over_and_told_of():
    kept("old", "yes", at=100)
    kept("new", "yes", at=200)
    (session.folder() / "zzz.json").write_text("{")
    (session.folder() / "folder.json").mkdir()
    latest, notices = session.last()
    assert latest.said[0].content == "new"
    assert len(notices) == 2
    assert "zzz.json is no conversation" in "".join(notices)


def test_the_last_one_with_a_model_comes_before_later_ones_with_others():
    kept("first", "yes", at=100, model="large")
    kept("second", "yes", at=200, model="small")
    assert session.last()[0].said[0].content == "second"
    assert session.last("large")[0].said[0].content == "first"
    assert session.last("unheard-of")[0].said[0].content == "second"


def test_two_that_go_on_with_the_same_one_lose_nothing():
    kept("shared", "yes")
    one, two = session.last()[0], session.last()[0]
    for each, word in ((one, "one"), (two, "two"), (one, "one more"), (two, "two more")):
        each.said += [ChatMessage("user", word), ChatMessage("assistant", "yes")]
        each.keep()
    sessions = [session.load(each) for each in session.folder().glob("*.json")]
    texts = sorted([said.content for said in each.said if said.role == "user"] for each in sessions)
    assert texts == [["shared", "one", "one more"], ["shared", "two", "two more"]]


def test_where_nothing_can_be_kept_that_is_said_and_files_elsewhere_can(home):
    (home / "localspec").write_text("a file where the folder should be")
    screen = talked("tiny", "hi", "ho")
    with pytest.raises(LocalSpecError, match=r"cannot be kept in .*: \w+"):
        screen.keep()
    session.save(screen, home / "elsewhere.json")
    assert session.load(home / "elsewhere.json").said == screen.said
    assert session.last() == (None, [])


def test_an_export_shows_who_said_what_files_included():
    screen = talked("tiny", "look", "é")
    screen.system = "be\nbrief"
    screen.said[0].files = {"a.md": "```\n"}
    screen.said[1].stopped = True
    assert screen.markdown() == (
        "# A conversation with tiny\n\n> be\n> brief\n\n## You\n\n"
        "look\n\na.md:\n````\n```\n````\n\n## tiny\n\né\n\n(stopped)\n"
    )

"""Pictures in questions: named, pasted and put into them, kept, and left out where nobody sees."""

from __future__ import annotations

import base64
import os
import sys

import pytest

from localspec.apps.chat import files, session
from localspec.apps.chat.commands import table
from localspec.apps.chat.session import ChatMessage, Session
from localspec.base.errors import UsageError
from localspec.console.speakers.local import LocalSpeaker
from localspec.console.speakers.speaker import Piece
from localspec.formats.templates.message import text_of
from tests.apps.chat.test_talk import STOP, Only, Saying, shown, talk_at
from tests.formats.pictures.files import picture
from tests.running.runtime.test_pictures import runtime

PNG = picture(size=(4, 3))
GIF = picture("GIF")
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("cat.png", "two words.png"):
        (tmp_path / name).write_bytes(PNG)
    (tmp_path / "owl.gif").write_bytes(GIF)
    (tmp_path / "notes.txt").write_text("milk\n")
    (tmp_path / "notes.png").write_text("no picture, whatever its name\n")
    return tmp_path


def talk_to(*answers, sees=True):
    speaker = Saying(*answers)
    speaker.sees = sees
    return talk_at(Only(speaker), speaker)


def asked(talk):
    """Return what the model got as the last question: its pictures, and its text."""
    content = talk.speaker.heard[-1][-1]
    if isinstance(content, str):
        return [], content
    urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    return urls, text_of({"content": content})


def test_a_named_picture_goes_into_the_question_before_its_text():
    talk = talk_to([Piece("a cat"), STOP])
    talk.ask("what is in @cat.png and @notes.txt?")
    urls, text = asked(talk)
    assert urls == [URL]
    assert text.startswith("what is in @cat.png and @notes.txt?\n\nnotes.txt:")
    assert "with cat.png" in shown(talk)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("{here}/cat.png", ["cat.png"]),
        ("what is {here}/cat.png?", ["cat.png"]),
        ("'{here}/two words.png' or \"{here}/cat.png\"", ["two words.png", "cat.png"]),
        ("{here}/two\\ words.png", ["two words.png"]),
        ("file://{here}/two%20words.png", ["two words.png"]),
        ("{here}/notes.png {here}/none.png {here} cat.png /", []),
    ],
)
def test_a_pasted_path_of_a_picture_goes_into_the_question(here, question, names):
    paths = files.pasted_pictures(question.format(here=here))
    assert paths == [f"{here}/{name}" for name in names]


def test_a_pasted_path_is_text_for_a_model_that_may_not_see(here):
    for sees in (False, None):
        talk = talk_to([Piece("hm"), STOP], sees=sees)
        talk.ask(f"what is {here}/cat.png?")
        assert asked(talk) == ([], f"what is {here}/cat.png?")


def test_a_model_that_reads_text_only_is_told_with_those_that_see():
    talk = talk_to(sees=False)
    with pytest.raises(UsageError, match="saying reads text only; these here do: owl"):
        talk.ask("what is in @cat.png?")
    for command in ("/image cat.png", "/file cat.png"):
        with pytest.raises(UsageError, match=r"cat\.png is a picture, and saying reads text only"):
            table.run(talk, command)


def test_commands_put_pictures_into_the_next_question_and_out_of_it():
    talk = talk_to([Piece("a cat"), STOP], [Piece("hm"), STOP])
    for command in ("/image cat.png", "/file owl.gif", "/file notes.txt"):
        table.run(talk, command)
    talk.ask("what are these?")
    urls, text = asked(talk)
    assert urls == [URL, f"data:image/gif;base64,{base64.b64encode(GIF).decode()}"]
    assert "milk" in text
    table.run(talk, "/image cat.png")
    table.run(talk, "/image off")
    talk.ask("and now?")
    assert asked(talk) == ([], "and now?")


@pytest.mark.parametrize(
    ("path", "fault"),
    [("notes.png", "a picture is of no known kind"), ("none.png", "none.png is not there")],
)
def test_what_is_no_picture_is_refused(path, fault):
    with pytest.raises(UsageError, match=fault):
        table.run(talk_to(), f"/image {path}")


def test_pictures_stay_with_the_conversation(here):
    talk = talk_to([Piece("a cat"), STOP], [Piece("so it is"), STOP], [Piece("well"), STOP])
    talk.ask("what is in @cat.png?")
    (here / "cat.png").unlink()
    kept = session.load(next(session.latest()))
    assert kept.said[0].pictures == {"cat.png": base64.b64encode(PNG).decode()}
    assert "![picture](<cat.png>)\n\nwhat is" in kept.markdown()
    talk.session = kept
    talk.ask("is it?")
    assert talk.speaker.heard[-1][0][0]["image_url"]["url"] == URL
    table.run(talk, "/edit")
    talk.ask("is it now?")
    assert talk.speaker.heard[-1][0][0]["image_url"]["url"] == URL


def test_a_conversation_without_pictures_of_an_earlier_version_is_loaded(here):
    talk = talk_to([Piece("ho"), STOP])
    talk.ask("hi")
    place = next(session.latest())
    place.write_text(place.read_text().replace('"pictures": {}', '"others": {}'))
    assert session.load(place).said[0].pictures == {}


def test_a_conversation_with_pictures_that_are_none_is_refused():
    talk = talk_to([Piece("ho"), STOP])
    talk.ask("@cat.png")
    place = next(session.latest())
    place.write_text(place.read_text().replace(base64.b64encode(PNG).decode(), "no picture"))
    with pytest.raises(UsageError, match="is no conversation that was saved here"):
        session.load(place)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_a_path_of_no_file_is_not_waited_for(here):
    os.mkfifo(here / "pipe")
    assert files.pasted_pictures(f"{here}/pipe /dev/tty /dev/zero {here}") == []


def test_the_pictures_of_a_conversation_are_bounded():
    talk = talk_to()
    large = {"large.png": "A" * session.MAX_PICTURES}
    talk.session = Session(said=[ChatMessage("user", "?", pictures=large)])
    with pytest.raises(UsageError, match="they may have 50,331,648: /new begins another"):
        talk.ask("and @cat.png?")


def test_a_model_here_gets_pictures_if_it_sees_and_else_the_texts():
    message = ChatMessage("user", "which?", pictures={"cat.png": base64.b64encode(PNG).decode()})
    for sees, more in ((True, 5), (False, 0)):
        speaker = LocalSpeaker("one", runtime(sees=sees))
        assert speaker.sees is sees
        alone = speaker.count([ChatMessage("user", "which?").message])
        assert speaker.count([message.message]) == alone + more
        answer = speaker.ask([message.message], talk_to().settings)
        while (event := answer.next(9)) is not None and isinstance(event, Piece):
            pass
        assert event.figures.prompt == alone + more
        speaker.close()


def test_it_is_said_that_pictures_are_left_out_where_another_model_goes_on():
    talk = talk_to([Piece("a cat"), STOP])
    talk.ask("what is in @cat.png?")
    talk.speaker.sees = False
    table.run(talk, "/model saying")
    assert "the pictures of this conversation are left out" in shown(talk)

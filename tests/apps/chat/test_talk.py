"""The conversation that is kept, whatever becomes of its answers, and its part for the model."""

from __future__ import annotations

import io
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from localspec.apps.chat import named_settings, session
from localspec.apps.chat.commands import table
from localspec.apps.chat.loop import converse, heed
from localspec.apps.chat.session import ChatMessage, Session
from localspec.apps.chat.talk import Talk
from localspec.apps.chat.terminal.screen import Screen
from localspec.base.errors import BackendError, PromptTooLong, UsageError
from localspec.base.system.signals import leaving
from localspec.console.options.reply import MEMBERS, ReplyOptions
from localspec.console.speakers.speaker import AnswerFigures, Ended, Piece
from localspec.core.requests.settings import DEFAULT, Settings
from localspec.core.sampling.parameters import Sampling
from tests.apps.chat.driver import Scripted

STOP = Ended("stop", AnswerFigures())
CANCELLED = Ended("cancelled", AnswerFigures())


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Saying:
    """Answers with what is written for it, one list for each question."""

    name = "saying"
    context = 0
    about: Sequence[str] = ()
    read = None
    thinks = None
    sees: bool | None = None
    thought = None
    interrupts = False  # whether a user presses Ctrl-C meanwhile

    def __init__(self, *answers):
        self.answers = list(answers)
        self.heard = []

    def count(self, messages):
        return None

    def ask(self, messages, settings, *, think=None):
        self.thought = think
        self.heard.append([message["content"] for message in messages])
        self.coming = list(self.answers.pop(0))
        return self

    def read_ahead(self, messages, settings, *, think=None):
        self.ahead = [message["content"] for message in messages]

    def next(self, seconds):
        following = self.coming.pop(0)
        if self.interrupts and isinstance(following, Ended):
            signal.raise_signal(signal.SIGINT)
        if isinstance(following, BaseException):
            raise following
        return following

    def cancel(self):
        pass

    def close(self):
        pass


class Only:
    """A source to one, who is there already."""

    def __init__(self, speaker, usual=DEFAULT):
        self.speaker = speaker
        self._usual = usual

    def names(self):
        return [self.speaker.name]

    def about(self, name):
        return ""

    def who_sees(self):
        return "these here do: owl"

    def check(self, name):
        pass

    def open(self, name):
        return self.speaker

    def usual(self, name):
        return self._usual


def talk_with(*answers) -> Talk:
    speaker = Saying(*answers)
    return talk_at(Only(speaker), speaker)


def talk_at(source, speaker) -> Talk:
    return Talk(source, speaker, Screen(Console(file=io.StringIO(), width=200)))


def shown(talk: Talk) -> str:
    return talk.screen.console.file.getvalue()


def told(talk: Talk) -> list[str]:
    """List the messages, which are what is kept."""
    kept, _ = session.last()
    if talk.session.said or kept:
        assert kept.said == talk.session.said
    return [each.content for each in talk.session.said]


def test_a_question_and_its_answer_are_kept_together():
    talk = talk_with([Piece("hm", "thought"), Piece("h"), Piece("o"), STOP], [Piece("ho"), STOP])
    assert heed(talk, "hi")
    assert told(talk) == ["hi", "ho"]
    assert talk.session.said[1].thought == "hm"
    heed(talk, "again")
    assert talk.speaker.heard[1] == ["hi", "ho", "again"]
    assert talk.prefill == ""


@pytest.mark.parametrize(("end", "goes_on"), [(CANCELLED, False), (BackendError("it broke"), True)])
def test_an_answer_that_was_cut_is_kept_and_marked(end, goes_on):
    talk = talk_with([Piece("ho"), end])
    assert heed(talk, "hi") == goes_on
    assert told(talk) == ["hi", "ho"]
    assert talk.session.said[1].stopped
    assert ("it broke" in shown(talk)) == goes_on


@pytest.mark.parametrize("end", [CANCELLED, STOP, BackendError("it broke"), KeyboardInterrupt()])
def test_a_question_without_an_answer_comes_back(end):
    talk = talk_with([Piece("ho"), STOP], [end])
    heed(talk, "hi")
    talk.next.files["a.txt"] = "a"
    heed(talk, "what?")
    assert told(talk) == ["hi", "ho"]
    assert talk.prefill == "what?"
    assert talk.next.files == {"a.txt": "a"}


def test_one_who_does_not_count_is_asked_again_with_fewer_turns():
    long = PromptTooLong("9 of 8")
    talk = talk_with([Piece("ho"), STOP], [long], [Piece("well"), STOP], [long], [long], [long])
    heed(talk, "hi")
    heed(talk, "what?")
    assert talk.speaker.heard[1:] == [["hi", "ho", "what?"], ["what?"]]
    assert told(talk) == ["hi", "ho", "what?", "well"]
    assert "the model hears the oldest 2 messages no more" in shown(talk)
    heed(talk, "this is long")  # with and without the turn before it
    assert told(talk) == ["hi", "ho", "what?", "well"]
    assert (talk.prefill, talk.session.forgotten) == ("this is long", 2)
    assert shown(talk).count("9 of 8") == 1


def test_a_second_interruption_keeps_what_was_said():
    talk = talk_with([Piece("ho"), KeyboardInterrupt()])
    assert not heed(talk, "hi")
    assert told(talk) == ["hi", "ho"]
    assert talk.session.said[1].stopped
    assert talk.prefill == ""


def test_a_defect_and_a_signal_leave_what_was_said_behind():
    for end in (SystemExit(143), RuntimeError("a defect")):
        talk = talk_with([Piece("ho"), end])
        with pytest.raises(type(end)):
            heed(talk, "hi")
        assert told(talk) == ["hi", "ho"]


@pytest.mark.skipif(sys.platform == "win32", reason="no terminal hangs up")
def test_a_terminal_that_closes_while_an_answer_is_kept_loses_nothing(monkeypatch):
    talk, keep = talk_with([Piece("ho"), OSError("the terminal is gone")]), session.Session.keep

    def keep_while_it_hangs_up(conversation):
        signal.raise_signal(signal.SIGHUP)
        keep(conversation)

    monkeypatch.setattr(session.Session, "keep", keep_while_it_hangs_up)
    monkeypatch.setattr("localspec.base.system.signals._is_nohup", lambda number: False)
    with leaving(), pytest.raises(SystemExit):
        heed(talk, "hi")
    assert told(talk) == ["hi", "ho"]


@pytest.mark.parametrize("end", [CANCELLED, BackendError("it broke"), KeyboardInterrupt()])
@pytest.mark.parametrize("how", ["/retry", "/edit"])
def test_the_first_answer_stays_if_there_is_no_other(how, end):
    talk = talk_with([Piece("ho"), STOP], [end], [Piece("oh"), STOP])
    heed(talk, "hi")
    for answers in (["hi", "ho"], ["hi", "oh"]):
        heed(talk, how)
        if how == "/edit":
            assert talk.prefill == "hi"
            heed(talk, talk.prefill)
        assert told(talk) == answers
    assert talk.speaker.heard == [["hi"]] * 3


def test_a_file_that_is_not_there_is_told_beside_those_that_are(home):
    (home / "a.txt").write_text("a")
    talk = talk_with([Piece("ho"), STOP])
    heed(talk, "see @a.txt and @b.txt")
    assert "with a.txt\nthere is no file b.txt: the question has only its name\n" in shown(talk)


def test_an_edited_question_takes_the_place_of_the_last_with_its_files(home):
    (home / "a.txt").write_text("a")
    (home / "b.txt").write_text("b")
    talk = talk_with(*[[Piece("ho"), STOP]] * 4)
    heed(talk, "/file b.txt")
    heed(talk, "see @a.txt")
    assert talk.speaker.heard[0] == ["see @a.txt\n\nb.txt:\n```\nb\n```\n\na.txt:\n```\na\n```"]
    (home / "a.txt").write_text("new")
    heed(talk, "/edit")
    assert talk.prefill == "see @a.txt"
    heed(talk, "look at @a.txt")
    assert told(talk) == ["look at @a.txt", "ho"]
    assert talk.session.said[0].files == {"b.txt": "b", "a.txt": "new"}
    heed(talk, "/edit")
    heed(talk, "look")
    assert talk.session.said[0].files == {"b.txt": "b"}
    heed(talk, "and now?")
    assert talk.speaker.heard[-1][-1] == "and now?"


@pytest.mark.parametrize("line", ["", "   ", "/system Be brief."])
def test_an_edit_that_is_given_up_changes_nothing(line):
    talk = talk_with([Piece("ho"), STOP], [Piece("yes"), STOP])
    heed(talk, "hi")
    heed(talk, "/edit")
    heed(talk, line)
    heed(talk, "next")
    assert told(talk) == ["hi", "ho", "next", "yes"]


def test_undo_takes_back_turn_by_turn():
    talk = talk_with([Piece("ho"), STOP], [Piece("yes"), STOP])
    heed(talk, "hi")
    heed(talk, "really?\nreally?")
    for left in (["hi", "ho"], []):
        heed(talk, "/undo")
        assert told(talk) == left
    heed(talk, "/undo")
    assert "taken back: really?\n" in shown(talk)
    assert shown(talk).endswith("nothing was asked yet\n\n")


class Lines:
    """An editor that types what is written here; ^C where it says so."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.begun = []
        self.forgotten = 0

    def forget(self):
        self.forgotten += 1

    def read(self, begun=""):
        self.begun.append(begun)
        line = self.lines.pop(0)
        if line == "^C":
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(
    "lines",
    [["^C", "^C"], ["hi", "^C"], [None], ["/quit"], ["^C", "/help", "^C", "^C"], ["/retry", "^C"]],
)
def test_two_interruptions_the_end_of_input_and_a_command_leave(lines):
    talk = talk_with([Piece("ho"), CANCELLED], [Piece("ho"), CANCELLED])
    talk.session.said = [ChatMessage("user", "hi"), ChatMessage("assistant", "ho")]
    editor = Lines(*lines)
    converse(talk, editor)
    assert editor.lines == []


def test_what_has_no_answer_is_on_the_next_line():
    editor = Lines("hi", None)
    converse(talk_with([CANCELLED]), editor)
    assert editor.begun == ["", "hi"]


@pytest.mark.parametrize("on_battery", [True, False])
def test_the_conversation_is_read_while_the_next_question_is_typed(monkeypatch, on_battery):
    monkeypatch.setattr("localspec.apps.chat.talk.is_on_battery", lambda: on_battery)
    talk = talk_with([Piece("ho"), STOP])
    talk.speaker.ahead = []
    converse(talk, Lines("hi", None))
    assert talk.speaker.ahead == ([] if on_battery else ["hi", "ho"])


def test_what_was_typed_during_an_answer_is_dropped_with_it_and_else_kept():
    for end, dropped in ((CANCELLED, 1), (STOP, 0)):
        editor = Lines("hi", None)
        talk = talk_with([Piece("ho"), end])
        talk.speaker.interrupts = end is CANCELLED
        converse(talk, editor)
        assert editor.forgotten == dropped


def test_a_setting_that_is_not_default_is_told_under_answers_and_with_another_model():
    talk = talk_with(*[[Piece("ho"), STOP]] * 4)
    heed(talk, "hi")
    assert shown(talk).endswith("0 tokens · /why\n\n")
    for line in ("/set repeat_penalty=1.2", "/set temperature=1.5", "/plain on", "/think off"):
        heed(talk, line)
    heed(talk, '/json {"type": "object"}')
    heed(talk, "hi")
    changes = "temperature 1.5", "repetition-penalty 1.2", "no drafts", "no thinking", "JSON"
    assert f"0 tokens · {' · '.join(changes)} · /why" in shown(talk)
    assert talk.speaker.thought is False
    heed(talk, "/model saying")
    assert f"this goes along: {', '.join(changes)}; /set NAME=default resets" in shown(talk)
    lines = "/set temperature=auto", "/set Repetition=default", "/plain off", "/think auto"
    for line in (*lines, "/json off", "hi"):
        heed(talk, line)
    assert "temperature is 0, the default" in shown(talk)
    assert talk.session.wishes == {}
    assert shown(talk).endswith("0 tokens · /why\n\n")
    assert talk.speaker.thought is None


def test_a_thought_has_as_many_tokens_as_are_asked_for():
    talk = talk_with()
    for line, think, budget in (
        ("/think 1200", True, 1200),
        ("/think off", False, None),
        ("/think 0", False, 0),
        ("/think auto", None, None),
    ):
        heed(talk, line)
        assert (talk.think, talk.settings.reasoning_budget) == (think, budget)
    assert "thinks for 1,200 tokens at most before it answers" in shown(talk)
    heed(talk, "/set reasoning-budget=-2")
    assert "reasoning_budget is -2; it must be at least -1" in shown(talk)


def test_thinking_that_is_switched_on_has_no_budget_of_nothing():
    speaker = Saying()
    talk = talk_at(Only(speaker, replace(DEFAULT, reasoning_budget=0)), speaker)
    heed(talk, "/think on")
    assert talk.settings.reasoning_budget == -1


def test_a_model_that_cannot_think_is_told_of():
    talk = talk_with()
    talk.speaker.thinks = False
    heed(talk, "/think on")
    assert "saying knows no thinking before an answer" in shown(talk)
    assert talk.think is None


def test_the_models_that_are_here_are_listed_and_the_present_one_is_marked():
    talk = talk_with()
    talk.source.names = lambda: ["saying:Q8_0", "other"]
    talk.source.about = lambda name: "3 MiB" if name == "other" else ""
    heed(talk, "/model")
    assert [line.split() for line in shown(talk).splitlines()] == [
        ["*", "saying:Q8_0"],
        ["other", "3", "MiB"],
    ]
    talk.source.names, talk.source.about = lambda: ["other"], lambda name: ""
    heed(talk, "/model")
    assert [line.split() for line in shown(talk).splitlines()][2:] == [
        ["*", "saying"],
        ["other"],
    ]


def asked(talk, *questions):
    for question in questions:
        heed(talk, question)


def test_conversations_are_listed_by_title_and_gone_on_with_by_number_and_beginning():
    talk = talk_with(*[[Piece("ho"), STOP]] * 5)
    for question in ("How do I sort?\nIn Python.", "How far is the moon?"):
        asked(talk, question, "/new")
    asked(talk, "Why?", "/list")
    rows = [re.split(r"  +", line.strip()) for line in shown(talk).splitlines()[-3:]]
    assert [(row[0], *row[2:]) for row in rows] == [
        ("*1", "2 messages", "Why?"),
        ("2", "2 messages", "How far is the moon?"),
        ("3", "2 messages", "How do I sort?"),
    ]
    asked(talk, "/resume how")
    assert "2 conversations begin with 'how': How far is the moon?; How do I sort?" in shown(talk)
    assert told(talk)[0] == "Why?"
    asked(talk, "/resume HOW DO", "And then?")  # which is the newest now
    assert told(talk) == ["How do I sort?\nIn Python.", "ho", "And then?", "ho"]
    assert len(list(session.latest())) == 3
    asked(talk, "/resume 2")
    assert talk.session.title == "How far is the moon?", "the numbers are those of the last list"
    asked(talk, "/resume 4")
    assert "there is no conversation 4; the last is 3" in shown(talk)


def test_a_narrow_list_keeps_its_numbers():
    talk = talk_with([Piece("ho"), STOP])
    talk.screen.console.width = 45
    asked(talk, "What is the longest river of the world?", "/list")
    assert "*1  today " in shown(talk)


def test_a_long_question_is_shown_by_its_beginning():
    talk = talk_with([Piece("ho"), STOP])
    asked(talk, "\n".join(f"row {at}" for at in range(500)), "/resume 1")
    assert "> row 0\nrow 1\nrow 2\n[and 497 more lines]\n" in shown(talk)


def test_titles_and_names_of_models_move_no_cursor():
    talk = talk_with([Piece("ho \x1b[2J"), STOP])
    talk.source.names = lambda: ["saying", "\x1b[31mred"]
    asked(talk, "\x1b[2Jhi", "/list", "/search ho", "/model", "/resume 1", "/delete 1")
    assert "\x1b" not in shown(talk)
    assert shown(talk).count("␛[2Jhi") == 4


def test_words_are_searched_in_all_messages_of_all_conversations():
    talk = talk_with([Piece("It is the RAPIDS of the Rhine."), STOP], [Piece("ho"), STOP])
    asked(talk, "what is that?", "/new", "hi", "/search rhine rapids")
    title, excerpt = shown(talk).splitlines()[-2:]
    assert title.rstrip().endswith("  what is that?")
    assert excerpt.strip() == "It is the RAPIDS of the Rhine."
    asked(talk, "/resume 1")
    assert talk.session.title == "what is that?"
    asked(talk, "/search rhine danube")
    assert "no conversation has 'rhine danube' in it" in shown(talk)


def test_a_conversation_that_is_deleted_is_gone_and_the_present_one_begins_anew():
    talk = talk_with(*[[Piece("ho"), STOP]] * 3)
    asked(talk, "one", "/new", "two", "/list", "/delete 2")
    assert "deleted: one" in shown(talk)
    assert told(talk) == ["two", "ho"]
    asked(talk, "/delete 2")
    assert "conversation 2 is gone; /list shows those that are there" in shown(talk)
    asked(talk, "/delete 1")
    assert list(session.latest()) == []
    assert talk.session.said == []
    asked(talk, "three")
    assert told(talk) == ["three", "ho"]


def test_the_context_is_told_by_what_is_in_it():
    talk = scripted(512)
    asked(talk, "/system Be brief.", "hi", "/context")
    rows = [re.split(r"  +", line.rstrip()) for line in shown(talk).splitlines()[-4:]]
    heads, counts, abouts = zip(*rows, strict=True)
    assert heads == ("system prompt", "conversation", "next question", "room left")
    assert sum(int(count) for count in counts) == 512
    assert int(counts[0]) > 9
    assert abouts[1] == "in 2 messages"
    assert abouts[3] == "of 512 tokens"
    talk.speaker.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/", "there is no /;"),
        ("/hlep", "did you mean /help?"),
        ("/set temperature", "write it as /set temperature=0.7"),
        ("/set temperature=hot", "temperature takes a number, or default, not 'hot'"),
        ("/set temperature=nan", "temperature is nan"),
        ("/set top_k=1.5", "top-k takes a number"),
        ("/set temperature=2.1", "temperature is 2.1; it must be at least 0 and at most 2"),
        ("/set presence-penalty=3", "presence-penalty is 3; it must be at least -2 and at most 2"),
        ("/set repetition=0", "repetition-penalty is 0; it must be at least 0.1 and at most 10"),
        ("/set num_ctx=4096", "there is no 'num_ctx' to set"),
        ("/set temp=1", "did you mean temperature?"),
        ("/set seed=-1", "seed is -1; it must be at least 0"),
        ("/set proposers=me", "there is no proposer 'me'"),
        ("/load", "name a file"),
        ("/load .", "is no file"),
        ("/save", "name a file"),
        ("/save .", "is there already"),
        ("/save /dev/null/kept.json", "no file|cannot be kept"),
        ("/export /dev/null/kept.md", "no file|cannot be written"),
        ("/save " + "long" * 2000, "can be no file|cannot be kept"),
        ("/file", "name a file"),
        ("/file nowhere", "nowhere is not there"),
        ("/prediction", "name a file"),
        ("/json", "give a schema"),
        ("/json [1]", "is not there"),
        ("/json {", "no JSON"),
        ("/json schema.json", "no JSON object"),
        ("/copy", "nothing was answered yet"),
        ("/stats", "nothing was answered yet"),
        ("/why", "nothing was answered yet"),
        ("/context", "does not report its context length"),
        ("/think maybe", "on or off, not 'maybe'"),
        ("/list", "no conversation is kept yet"),
        ("/search", "give words to look for"),
        ("/search milk", "no conversation has 'milk' in it"),
        ("/resume milk", "no conversation begins with 'milk'"),
        ("/resume 1", "no conversation begins with '1'"),
        ("/resume " + "9" * 5000, "no conversation begins with '9"),
        ("/delete", "name a conversation"),
        ("/delete milk", "no conversation begins with 'milk'"),
        ("/lens maybe", "on or off, not 'maybe'"),
    ],
)
def test_a_command_that_cannot_be_done_says_why_and_changes_nothing(home, line, message):
    (home / "schema.json").write_text("[]")
    talk = talk_with()
    with pytest.raises((UsageError, Exception), match=message) as refused:
        table.run(talk, line)
    assert "\n" not in str(refused.value)
    assert heed(talk, line)
    assert (talk.session.wishes, talk.next.files, talk.prediction, talk.schema) == (
        {},
        {},
        None,
        None,
    )


def test_a_path_and_a_text_after_a_line_end_are_no_commands():
    assert table.is_one("/help")
    assert table.is_one("/system\nBe brief.")
    assert not table.is_one("/usr/bin/env: no such file\nwhat is that?")
    assert not table.is_one(" /help")


def test_a_conversation_with_wishes_that_make_no_sense_is_taken_without_them(home):
    talk = talk_with()
    session.save(Session("saying", wishes={"warmth": "1"}), home / "odd.json")
    heed(talk, "/load odd.json")
    assert "what was /set is left out: there is no 'warmth'" in shown(talk)
    assert talk.session.wishes == {}
    assert talk.settings == DEFAULT


def test_settings_have_the_names_of_options_of_apis_and_of_old_conversations(home):
    kept = {"penalty_window": "64", "repetition": "1.1", "proposers": "suffix", "top_k": "5"}
    talk = talk_with()
    session.save(Session("saying", wishes=kept), home / "old.json")
    heed(talk, "/load old.json")
    assert talk.settings.proposers == ("suffix",)
    assert talk.settings.sampling == Sampling(repetition=1.1, penalty_window=64, top_k=5)
    for line in ("/set repeat-last-n=9", "/set max_tokens=7", "/set repeat_penalty=auto"):
        heed(talk, line)
    assert talk.settings.sampling == Sampling(penalty_window=9, top_k=5)
    assert talk.settings.max_tokens == 7
    options = {name.replace("_", "-") for name in ReplyOptions.__slots__} | set(MEMBERS)
    settings = {name.replace("-", "_") for name in named_settings.NAMES} - {"depth", "proposer"}
    assert settings <= {name.replace("-", "_") for name in options}


def test_what_the_command_line_wished_holds_until_something_else_is(home):
    (home / "said.txt").write_text("said")
    speaker = Saying()
    talk = talk_at(Only(speaker, Settings(depth=0, prediction="usual", seed=3)), speaker)
    assert (talk.settings.prediction, talk.settings.depth, talk.settings.seed) == ("usual", 0, 3)
    for line, prediction in (("/prediction said.txt", "said"), ("/prediction off", "")):
        heed(talk, line)
        assert talk.settings.prediction == prediction
    heed(talk, "/plain off")
    assert shown(talk).endswith("nothing is drafted\n")
    heed(talk, "/set depth=auto")
    heed(talk, "/set seed=4")
    assert (talk.settings.depth, talk.settings.seed) == (None, 4)
    heed(talk, "/plain on")
    assert talk.settings.depth == 0


def scripted(context: int) -> Talk:
    source = Scripted(context)
    return talk_at(source, source.open("scripted"))


def test_when_the_context_is_full_the_oldest_turns_leave_in_few_steps():
    talk = scripted(1024)
    heed(talk, "/system You are terse.")
    notices, reused = 0, []
    for number in range(40):
        before = shown(talk).count("is full: the model hears the oldest")
        assert heed(talk, f"question {number}")
        figures = talk.heard[-1].figures
        assert figures.prompt <= 1024 - 256
        notices += shown(talk).count("is full: the model hears the oldest") - before
        reused.append(figures.cached / figures.prompt)
    assert len(talk.session.said) == 80
    heard = talk.session.messages(ChatMessage("user", "next"))
    assert heard[0] == {"role": "system", "content": "You are terse."}
    assert heard[1]["role"] == "user"
    assert [each["content"] for each in heard[-3:-1]] == ["question 39", "You said: question 39"]
    assert 1 < notices < 10
    assert sum(share > 0.8 for share in reused) > 40 - notices - 6
    assert "the context of 1,024 tokens is full: the model hears the oldest" in shown(talk)
    talk.speaker.close()


def test_a_message_that_is_too_long_changes_nothing():
    talk = scripted(512)
    heed(talk, "hi")
    before = list(talk.session.said)
    heed(talk, "word " * 200)
    assert "the message is 1,019 tokens, the system prompt included; the context holds 512: " in (
        shown(talk)
    )
    assert "--context 1531" in shown(talk)
    assert (talk.session.said, talk.session.forgotten) == (before, 0)
    assert talk.prefill == "word " * 200
    heed(talk, "and now?")
    assert told(talk)[-1] == "You said: and now?"
    talk.speaker.close()


def test_another_model_is_told_all_that_it_has_room_for():
    talk = scripted(512)
    talk.session.said = [ChatMessage("user", "hi"), ChatMessage("assistant", "ho")]
    talk.session.forgotten = 2
    heed(talk, "/model slow")
    assert (talk.session.forgotten, talk.session.model) == (0, "slow")
    heed(talk, "/model broken")
    assert talk.speaker.name == "slow"
    assert heed(talk, "still there?")
    assert told(talk)[-1] == "You said: still there?"
    talk.speaker.close()

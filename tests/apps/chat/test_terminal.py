"""The chat as somebody at a terminal meets it, through a pseudo-terminal."""

from __future__ import annotations

import base64
import re
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from localspec.apps.chat.terminal.editor import WAITS
from tests import engines
from tests.apps.chat.pty_session import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    ENTER,
    PROMPTED,
    TAB,
    UP,
    Person,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")

TRANSCRIPT = Path(__file__).with_name("transcript.txt")
SCHEMA = '{"type": "object", "properties": {"city": {"enum": ["Bern"]}}, "required": ["city"]}'
EVERYTHING = """
/help
/model
/model slow
/model scripted
poem
/system Be brief.
/system
/prompt
/prompt brief
/prompt save brief
/system off
/prompt save none
/prompt brief
/prompt
/prompt forget breif
/prompt forget brief
/set temperature=0.5
/set temperature=9
/set warmth=1
/set
/model slow
/model scripted
/set temperature=default
/think off
hello
/think auto
/why
/context
/plain
hello again
/plain off
/file notes.txt
what is that?
what is in @notes.txt?
/file nowhere.txt
/prediction said.txt
as was predicted
/prediction off
/json {
/json schema.json
json
/json off
/lens
sea sea sea sea sea sea
/lens off
/retry
/undo
/stats
/save kept.json
/save kept.json
/export kept.md
/copy
/lod kept.json
/lens maybe
/new
/undo
/retry
/list
/resume poem
/search milk remember
/clear
/delete 1
/resume 1
/load kept.md
/load kept.json
/edit
""".strip().splitlines()


def masked(text: str) -> str:
    """Replace the times in a transcript."""
    text = re.sub(r"[\d,.]+ tokens/s", "N tokens/s", text)
    text = re.sub(r"(first token +after|then) +[\d.]+", r"\1 N", text)
    text = re.sub(r"today \d\d:\d\d", "today HH:MM", text)
    return re.sub(r"(?m)^( +\d+ +[\d,]+) +[\d.]+(  )", r"\1 N\2", text)


@pytest.fixture
def someone(tmp_path):
    """People at terminals of their own, who leave when a test is over."""
    with ExitStack() as gone:

        def come(**wishes: object) -> Person:
            person = Person(tmp_path, **wishes)
            gone.callback(person.gone)
            person.prompted()
            return person

        yield come


def everything(person: Person, home: Path) -> str:
    (home / "notes.txt").write_text("remember the milk\n")
    (home / "said.txt").write_text("You said: as was predicted")
    (home / "schema.json").write_text(SCHEMA)
    for line in EVERYTHING:
        person.say(line)
    person.say(" once more")
    assert person.leave("/quit" + ENTER) == 0
    copied = base64.b64encode(b'{"city": "Bern"}').decode()
    assert f"\x1b]52;c;{copied}\x07" in person.raw
    return masked(person.text) + "\n"


def test_a_session_with_every_command_looks_like_this(someone, tmp_path):
    shown = everything(someone(columns=110, rows=40), tmp_path)
    assert shown == TRANSCRIPT.read_text(encoding="utf-8")
    assert (tmp_path / "kept.md").read_text().startswith("# A conversation with scripted\n")


SPINNING = "⠋"
GIVEN = "\x1b[?2004l"  # what a terminal hears when a line was typed


def words(pairs: list[tuple[str, str]]) -> list[str]:
    return [text for _, text in pairs]


def test_whatever_is_interrupted_nothing_is_lost(someone, tmp_path):
    person = someone(model="slow")

    shown = person.say("long " * 100 + "question", until=SPINNING, then=CTRL_C)
    assert "\n0 tokens · stopped · /why\n\n> " in shown
    assert shown.endswith("question"), "what was not answered is on the line again"
    assert person.kept == []
    person.type(CTRL_C)  # empties the line, and does not leave
    person.shows("\n>")

    shown = person.say("numbers", until="line 2", then=CTRL_C)
    assert " · stopped · /why" in shown
    [asked, cut] = words(person.said)
    assert asked == "numbers"
    assert "line 2\n" in cut < "line 5"
    assert cut.strip() in shown

    assert "interrupted\n>" in person.say("/model stuck", until=GIVEN, then=CTRL_C)
    shown = person.say("/model broken")
    assert "slow goes on\nits weights are of no use\n" in shown
    assert "there is no model 'nobody'; there are: scripted, slow" in person.say("/model nobody")

    before = len(person.raw)
    person.type("numbers" + ENTER)
    for columns in (40, 100, 30, 80):
        person.watch(0.2)
        person.resize(columns, 30)
    person.type("typed ahead")
    person.prompted(since=before)
    person.shows(f"> typed ahead{WAITS}")
    assert "typed ahead" not in person.raw[before:].partition(PROMPTED)[0]
    shown = person.text
    person.type(CTRL_C)
    assert [shown.count(f"\nline {at}\n") >= 1 for at in range(1, 31)] == [True] * 30
    assert words(person.said) == [*words(person.said)[:3], "\n".join(LINES)]

    person.type("numbers" + ENTER)
    person.watch(0.5)
    assert person.kill() == -signal.SIGKILL
    assert len(person.said) == 4

    person = someone(model="slow", resume=True)
    assert "4 messages, the last:\n> numbers\nline 1\n" in person.text
    person.type("numbers" + ENTER)
    person.wait("line 1\x1b", since=len(person.raw))
    person.close()
    assert person.process.wait(60) != 0
    assert "Traceback" not in person.raw
    assert len(person.said) == 6
    assert "line 1" in words(person.said)[-1]


LINES = [f"line {at}" for at in range(1, 31)]
UNDO = "/undo  take back the last question and its answer"


def test_what_is_typed_and_pasted_is_one_message_and_is_remembered(someone, tmp_path):
    (tmp_path / "notes.txt").write_text("remember the milk\n")
    person = someone(context=200_000)
    assert "You said: one\ntwo\nthree\n" in person.say(f"one{ALT_ENTER}two{ALT_ENTER}three")
    assert "You said: four\nfive\n" in person.say(f'"""four{ENTER}five{ENTER}"""')

    person.paste("\n".join(f"row {at}" for at in range(5000)))
    assert "\n5000 lines, 43889 characters, the last: row 4999\n" in person.say("")

    person.type("/und")
    person.shows(UNDO)
    assert "taken back: row 0\n" in person.say(TAB)
    person.type(f"read @no{TAB}")
    person.shows("> read @notes.txt")
    assert "with notes.txt\n" in person.say("")
    assert "/etc/passwd is not a command" in person.say("/etc/passwd is not a command")

    person.type("half a li")
    person.shows("> half a li")
    person.type(CTRL_C + "/und")
    person.shows(UNDO)
    assert person.kill(signal.SIGTERM) == 128 + signal.SIGTERM
    assert "Traceback" not in person.raw
    assert person.raw.endswith(GIVEN), "the terminal is as it was"

    person = someone()
    person.type(UP)
    person.shows("> half a li")
    person.type(CTRL_C)
    person.shows("\n>")
    assert "You said: /etc/passwd is not a command" in person.say(UP * 2)
    history = tmp_path / "data" / "localspec" / "history"
    assert "\n+one\n+two\n+three\n" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
    person.type(CTRL_C)
    person.shows("\nCtrl-C again, or Ctrl-D, leaves\n>")
    assert person.leave(CTRL_C) == 0


def test_a_terminal_that_can_do_nothing_gets_plain_text(someone, tmp_path):
    person = someone(term="dumb", columns=80)
    person.say("poem")
    assert "there is no clipboard here" in person.say("/copy")
    person.say(f"one{ENTER}two{ENTER}three")
    person.wait("You said: one\r\ntwo\r\nthree")
    assert "\n```python\r\nprint('sugar')\r\n```\r\n" in person.raw
    assert person.leave(CTRL_D) == 0
    assert "\x1b" not in person.raw


def talking(someone, max_tokens):
    plain = ("--depth", "0", "--proposer", "none", "--context", "512", "--max-tokens", max_tokens)
    return someone(command=["localspec", "chat", str(engines.tiny("llama")), *plain])


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say who sent a signal")
@pytest.mark.parametrize("when", ["at a prompt", "in an answer"])
def test_an_interrupt_by_a_program_ends_a_chat_cleanly(someone, when):
    person = talking(someone, "400")
    person.prompted()
    if when == "in an answer":
        person.type(f"hello{ENTER}")
        person.watch(0.2)
    began = time.monotonic()
    assert person.kill(signal.SIGINT) == -signal.SIGINT
    assert time.monotonic() - began < 5.0  # one is meant; machines of tests are busy
    assert "Traceback" not in person.raw
    assert not psutil.pid_exists(person.process.pid)


def test_a_chat_whose_engine_is_ended_by_a_signal_goes_on(someone):
    person = talking(someone, "8")
    person.say("hello")
    before = len(person.raw)
    for again in (False, True):
        [engine] = psutil.Process(person.process.pid).children()
        engine.send_signal(signal.SIGABRT)
        person.wait("localspec: SIGABRT ended the engine; it begins anew; if a", since=before)
        heading = "4 messages, the last:" if again else "2 messages, the last:"
        person.wait(heading, since=before)
        person.prompted(since=person.raw.index(heading, before))
        person.say("and now?")
        before = len(person.raw)
    assert person.leave() == 0
    assert len(person.said) == 6

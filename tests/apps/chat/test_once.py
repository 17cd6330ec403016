"""One question from a script: what comes in, what goes out, and the exit code."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from localspec.apps.chat import once
from localspec.apps.chat.session import ChatMessage, Session
from localspec.base.errors import BackendError, PromptTooLong, UsageError
from localspec.console.speakers.speaker import AnswerFigures, Ended, Piece
from localspec.core.requests.settings import Settings
from tests import engines
from tests.apps.chat.driver import Scripted
from tests.apps.chat.test_talk import CANCELLED, STOP, Saying

ONE = ["--threads", "1", "--max-tokens", "8"]


def asked(*pieces, session=None):
    once.once(Saying(pieces), Settings(), session or Session(), "what?")


def test_the_answer_goes_out_and_thoughts_and_notices_do_not(capsys):
    ended = Ended("stop", AnswerFigures(tokens=3), ["memory is short"])
    asked(Piece("hm", "thought"), Piece("a\n"), Piece("b"), ended)
    assert capsys.readouterr() == ("a\nb\n", "localspec: memory is short\n")


def test_an_answer_belongs_to_the_conversation_that_goes_on(capsys):
    session = Session(said=[ChatMessage("user", "hi"), ChatMessage("assistant", "ho")])
    asked(Piece("yes"), STOP, session=session)
    assert [each.content for each in session.said] == ["hi", "ho", "what?", "yes"]


@pytest.mark.parametrize(
    ("end", "error"), [(BackendError("it broke"), BackendError), (CANCELLED, KeyboardInterrupt)]
)
def test_a_failed_and_a_stopped_answer_are_no_success(capsys, end, error):
    session = Session()
    with pytest.raises(error):
        asked(Piece("half"), end, session=session)
    assert capsys.readouterr().out == "half\n"
    assert session.said == []


def test_a_question_that_is_too_long_is_refused_with_both_numbers(capsys):
    speaker = Scripted(256).open("scripted")
    with pytest.raises(PromptTooLong, match=r"is 1,019 tokens, .* holds 256: shorten it"):
        once.once(speaker, Settings(), Session(), "word " * 200)
    speaker.close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("piped", "question", "whole"),
    [
        (b"", "what?", "what?"),
        (b" \n\n", "what?", "what?"),
        (b"a log\n\n", "", "a log"),
        (b"\n  a log\n", " what? ", "  a log\n\n what? "),
        (b"\xef\xbb\xbfa log", "", "a log"),
        (b"", "  ", ""),
    ],
)
def test_what_comes_through_a_pipe_is_put_before_the_question(monkeypatch, piped, question, whole):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))
    assert once.whole_question(question) == whole


@pytest.mark.parametrize(
    ("piped", "why"), [(b"ab\xff", "no text in UTF-8: see its byte 2"), (b"a\0b", "a zero byte")]
)
def test_what_is_no_text_is_refused(monkeypatch, piped, why):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))
    with pytest.raises(UsageError, match=why):
        once.whole_question("what?")


def test_closed_input_and_a_terminal_are_not_waited_for(monkeypatch):
    for stdin in (None, SimpleNamespace(isatty=lambda: True)):
        monkeypatch.setattr("sys.stdin", stdin)
        assert once.whole_question("what?") == "what?"


def chat(*arguments, **options):
    model = str(engines.tiny("llama"))
    code = "from localspec.apps.command_line import main; main()"
    command = [sys.executable, "-c", code, "chat", model, *ONE, *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, **(pipes | options))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a device that is always full")
def test_a_full_disk_is_one_line_and_exit_code_1():
    with open("/dev/full", "wb") as full, chat("what?", stdout=full) as process:
        _, err = process.communicate(b"", timeout=60)
    assert (process.returncode, err.decode().count("\n")) == (1, 1)
    assert err.startswith(b"localspec: the answer cannot be written: No space left")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_an_interruption_ends_with_what_was_said_and_exit_code_130():
    with chat("what?", "--max-tokens", "4000", "--ignore-end") as process:
        process.stdin.close()
        contents = process.stdout.read(3)
        process.send_signal(signal.SIGINT)
        contents += process.stdout.read()
        err = process.stderr.read()
    assert process.returncode == 130
    assert len(contents) > 3
    assert b"Traceback" not in err

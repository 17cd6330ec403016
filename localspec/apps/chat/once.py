"""A single question, as from a script: only the answer goes to standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from localspec.apps.chat.hearing import hear
from localspec.apps.chat.room import fitting
from localspec.apps.chat.session import ChatMessage, Session
from localspec.apps.chat.status import status
from localspec.apps.chat.terminal.view import TypedView
from localspec.base.errors import LocalSpecError, UsageError
from localspec.console.speakers.speaker import Speaker
from localspec.core.requests.settings import Settings


def once(speaker: Speaker, settings: Settings, session: Session, question: str) -> None:
    """Answer one question; notices go to standard error."""
    message = ChatMessage("user", question)
    messages, notice = fitting(session, speaker, message)
    print_notices([notice] if notice else [])
    try:
        heard = hear(speaker.ask(messages, settings), TypedView(sys.stdout, thoughts=False))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LocalSpecError(f"the answer cannot be written: {error.strerror}") from error
    if heard.error:
        raise heard.error
    if heard.stopped or heard.ended is None:
        raise KeyboardInterrupt
    session.said += [message, ChatMessage("assistant", heard.text, heard.thought)]
    print_notices(heard.ended.notices)
    if sys.stderr.isatty():
        print(status(heard.ended), file=sys.stderr)


def print_notices(notices: Sequence[str]) -> None:
    for notice in notices:
        print(f"localspec: {notice}", file=sys.stderr)


def whole_question(question: str) -> str:
    """Join what comes through a pipe, if anything does, and the question."""
    if sys.stdin is None or sys.stdin.isatty():
        return question.strip()
    try:
        piped = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"what comes through the pipe is no text in UTF-8: see its byte {error.start:,}"
        ) from error
    if "\0" in piped:
        raise UsageError("what comes through the pipe is no text: it has a zero byte")
    return "\n\n".join(part.strip("\n") for part in (piped, question) if part.strip())

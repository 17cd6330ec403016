"""Commands that show figures: of the last answer, of all, and of the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from localspec.apps.chat.commands.command import add, columns, read_switch
from localspec.apps.chat.session import ChatMessage
from localspec.apps.chat.status import explain, quantity, statistics
from localspec.apps.chat.talk import Talk
from localspec.base.errors import UsageError


def why(talk: Talk, _: str) -> None:
    if not talk.heard:
        raise UsageError("nothing was answered yet")
    heard, rows = talk.heard[-1], columns()
    for heading, text in explain(heard.figures, talk.speaker.context):
        add(rows, heading, text)
    talk.screen.show(rows)


def stats(talk: Talk, _: str) -> None:
    if not talk.heard:
        raise UsageError("nothing was answered yet")
    for table in statistics(talk.heard):
        talk.screen.show(table)


def context(talk: Talk, _: str) -> None:
    rows = columns()
    rows.add_column()
    rows.add_column(justify="right")
    for heading, tokens, about in contents(talk):
        add(rows, heading, f"{tokens:,}", about)
    talk.screen.show(rows)


def contents(talk: Talk) -> Iterator[tuple[str, int, str]]:
    """Yield rows (heading, tokens, remark): what the next prompt has so far, and the room left.

    Where the model cannot count, the figures are those of its last answer.
    """
    speaker, session = talk.speaker, talk.session
    if not speaker.context:
        raise UsageError(f"{speaker.name} does not report its context length")
    question = ChatMessage("user", "")
    empty_question = speaker.count([question.message])
    with_system = speaker.count(replace(session, said=[], forgotten=0).messages(question))
    whole = speaker.count(session.messages(question))
    if empty_question is None or with_system is None or whole is None:
        figures = talk.heard[-1].figures if talk.heard else None
        if figures is None or not figures.prompt:
            raise UsageError(f"{speaker.name} does not count tokens before an answer")
        whole = figures.prompt + figures.tokens
        yield "after the last answer", whole, "tokens"
    else:
        sent = len(session.said) - session.forgotten
        left_out = f", without the oldest {session.forgotten:,}" if session.forgotten else ""
        yield "system prompt", with_system - empty_question, "tokens"
        yield "conversation", whole - with_system, f"in {quantity(sent, 'message')}{left_out}"
        yield "next question", empty_question, "at least: the marks around it"
    yield "room left", max(speaker.context - whole, 0), f"of {speaker.context:,} tokens"


def lens(talk: Talk, text: str) -> None:
    talk.lens = read_switch(text, talk.lens)
    if talk.lens and not talk.screen.colours:
        talk.screen.notice("this terminal has no colours to show it in")
    else:
        talk.screen.faint(
            "tokens have the colour of their proposer" if talk.lens else "answers are Markdown"
        )

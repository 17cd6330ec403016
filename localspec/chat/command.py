"""`localspec chat`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields

import click
from click.core import ParameterSource

from localspec import wishes
from localspec.chat import choice, session
from localspec.chat.attached import Server
from localspec.chat.commands import Words, recall
from localspec.chat.editor import Typing
from localspec.chat.here import Here, drawn
from localspec.chat.loop import converse
from localspec.chat.once import once
from localspec.chat.screen import Screen
from localspec.chat.session import Session
from localspec.chat.talk import Door, Talk
from localspec.errors import UsageError
from localspec.loading import Loading
from localspec.offering import offered, pulled
from localspec.sampling import Sampling
from localspec.settings import Settings
from localspec.sources import place

# The options whose names are not those of what they set.
NAMES = {
    "repetition": "repetition_penalty",
    "presence": "presence_penalty",
    "frequency": "frequency_penalty",
    "bias": "logit_bias",
}


def chat(context: click.Context, name: str, question: str) -> None:
    """Answer one question, or all that are typed."""
    wish, loading = context.meta, wishes.loading(context)
    asked = whole(question)
    if not asked and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is nothing to answer: give a question, or talk at a terminal")
    kept, notices = session.last(name) if wish["resume"] else (None, ())
    door = door_of(context, loading)
    name = chosen(door, name or (kept.model if kept else ""), loading, asks=not asked)
    speaker = door.open(name)
    try:
        if asked:
            found = kept or Session(system=wish["system"])
            once(speaker, door.usual(name), found.messages(asked))
            return
        talk = Talk(door, speaker, Screen(), kept or Session(), lens=wish["lens"])
        begin(talk, wish["system"], resumes=wish["resume"], notices=notices)
        converse(talk, Typing(Words(talk)))
        speaker = talk.speaker
    finally:
        speaker.close()


def begin(talk: Talk, system: str, *, resumes: bool, notices: Sequence[str]) -> None:
    talk.introduce()
    for notice in notices:
        talk.screen.notice(notice)
    if resumes and talk.session.said:
        recall(talk)
    elif resumes:
        talk.screen.notice("there is no conversation to go on with: this is a new one")
    if system:
        talk.session.system = system
    talk.screen.faint("/help tells what there is; Ctrl-C stops an answer, Ctrl-D leaves")
    talk.screen.gap()


def whole(question: str) -> str:
    """The question after what comes through a pipe, if something does."""
    if sys.stdin.isatty():
        return question
    return "\n\n".join(filter(None, (sys.stdin.read().strip("\n"), question)))


def door_of(context: click.Context, loading: Loading) -> Door:
    wish, settings, given = context.meta, wishes.settings(context), named(context)
    if not wish["attach"]:
        return Here(loading, wishes.draft(context), settings, given)

    def usual(name: str) -> Settings:
        return drawn(name, settings, given, Sampling(temperature=1.0))

    return Server(wish["attach"], wish["key"] or "", usual)


def named(context: click.Context) -> frozenset[str]:
    """The ways to draw that the command line names."""
    sources = {
        each.name: context.get_parameter_source(NAMES.get(each.name, each.name))
        for each in fields(Sampling)
    }
    return frozenset(name for name, at in sources.items() if at != ParameterSource.DEFAULT)


def chosen(door: Door, name: str, loading: Loading, *, asks: bool) -> str:
    """The model that is named, or the one that suits; got if it is not here, and is wished."""
    if isinstance(door, Server):
        return name or door.names()[0]
    if name:
        path = place(name)
        name = str(path.absolute()) if path.exists() else name
    else:
        name = choice.chosen(loading)
        better = choice.better(loading) if asks and name == choice.STARTER else None
        if better and offered(f"{better.name} fits this machine: {better.about}."):
            name = better.name
    pulled(name, loading)
    return name

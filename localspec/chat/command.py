"""The command `localspec chat`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields

from localspec.chat import choice, conversations, session
from localspec.chat.commands.conversation import recall
from localspec.chat.commands.table import CommandWords
from localspec.chat.loop import converse
from localspec.chat.named_settings import apply
from localspec.chat.once import once, told, whole
from localspec.chat.options import ChatWanted
from localspec.chat.session import Session
from localspec.chat.speakers.here import Here, drawn
from localspec.chat.speakers.server import AttachedServer
from localspec.chat.talk import Door, Talk
from localspec.chat.terminal.editor import Asking, Typing
from localspec.chat.terminal.screen import Screen
from localspec.chat.terminal.typeahead import TypedAhead
from localspec.commands.options.loading import LOADING
from localspec.commands.options.loading import loading as how_to_load
from localspec.commands.options.reply import settings
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.models.sources import place
from localspec.runtime.loading import Loading
from localspec.sampling.parameters import PARAMETERS, Sampling
from localspec.system.rebirth import Lives, one_life
from localspec.system.signals import leaving


def chat(options: ChatWanted, name: str, question: str, lives: Lives = one_life) -> None:
    """Answer one question, or all that are typed; a chat whose engine was ended goes on."""
    wish, loading = options.chat, how_to_load(options.load, options.drafting)
    check(options)
    door = door_of(options, loading)
    conversation, name, question = find_conversation(wish.resume or "", name, question)
    name, question = model_and_question(door, name, question)
    asked = read_question(question, lens=wish.lens)
    name = known(name)
    here = not wish.attach and loading.options.members == 1
    life = lives(again=not asked) if here else one_life()
    resumes, notices = wish.resume is not None or not life.first, list[str]()
    if resumes and (conversation is None or not life.first):
        conversation, notices = session.last(name)
    before = conversation.model if conversation else ""
    name = chosen(door, name, before, loading, asks=not asked)
    found = conversation or Session()
    found.system = wish.system or found.system
    if not asked:
        meet(door, Beginning(name, found, notices, wish.lens, resumes), life.begun)
        return
    told(notices)
    speaker = door.open(name)
    try:
        once(speaker, apply(door.usual(name), found.wishes), found, asked)
    finally:
        speaker.close()
    if conversation:
        conversation.keep()


def check(options: ChatWanted) -> None:
    """Refuse options that would have no effect."""
    of_loading = {each.name for record in LOADING for each in fields(record)}
    if options.chat.attach and (aside := sorted(options.typed & of_loading)):
        option = aside[0].replace("_", "-")
        raise UsageError(f"--{option} is for a model that is loaded here; a server has its own")
    if "key" in options.typed and not options.chat.attach:
        raise UsageError("--key is for a server: give --attach URL too")


def read_question(question: str, *, lens: bool) -> str:
    """Read the question whole; none requires a terminal to talk at."""
    typed = bool(sys.stdin and sys.stdin.isatty())
    if lens and (question or not typed):
        raise UsageError("--lens is for talking at a terminal; one answer comes as plain text")
    asked = whole(question)
    if not asked and not (typed and sys.stdout.isatty()):
        raise UsageError("there is nothing to answer: give a question, or talk at a terminal")
    return asked


def find_conversation(
    conversation: str, name: str, question: str
) -> tuple[Session | None, str, str]:
    """Find the conversation to go on with; what is none is the first argument after all."""
    if not conversation:
        return None, name, question
    if found := conversations.find(conversation):
        return found.session, name, question
    if question:
        raise UsageError(f"no conversation begins with {conversation!r}; /list in a chat shows all")
    return None, conversation, name


def model_and_question(door: Here | AttachedServer, name: str, question: str) -> tuple[str, str]:
    """Tell whether a lone argument is a model or a question."""
    if question or not name:
        return name, question
    is_model = name in door.names() if isinstance(door, AttachedServer) else not is_question(name)
    return (name, "") if is_model else ("", name)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a chat at a terminal begins with."""

    model: str
    session: Session
    notices: Sequence[str] = ()
    lens: bool = False
    resumes: bool = False


def meet(door: Door, beginning: Beginning, begun: Callable[[], object] = lambda: None) -> None:
    """Run the chat at a terminal until the user leaves."""
    screen = Screen()
    ahead = None if screen.console.is_dumb_terminal else TypedAhead(sys.stdout)
    with leaving(), ahead.held() if ahead else nullcontext():
        speaker = door.open(beginning.model)
        begun()
        before = beginning.session.model
        talk = Talk(door, speaker, screen, beginning.session, lens=beginning.lens)
        try:
            begin(talk, beginning, before)
            converse(talk, Typing(CommandWords(talk), ahead) if ahead else Asking())
        finally:
            talk.speaker.close()


def begin(talk: Talk, beginning: Beginning, other: str) -> None:
    talk.introduce()
    for notice in beginning.notices:
        talk.screen.notice(notice)
    if beginning.resumes and talk.session.said:
        recall(talk, other)
    elif beginning.resumes:
        talk.screen.notice("there is no conversation to go on with: this is a new one")
    talk.screen.faint("/help tells what there is; Ctrl-C stops an answer, Ctrl-D leaves")
    talk.screen.gap()


def door_of(options: ChatWanted, loading: Loading) -> Here | AttachedServer:
    wished, given = settings(options.reply), sampled(options.chosen)
    if not options.chat.attach:
        return Here(loading, options.load.draft, wished, given)

    def usual(name: str) -> Settings:
        return drawn(name, wished, given, Sampling(temperature=1.0))

    return AttachedServer(options.chat.attach, options.chat.key or "", usual)


def sampled(chosen: frozenset[str]) -> frozenset[str]:
    """Name the sampling parameters among the options that were given."""
    found = frozenset(each.field for each in PARAMETERS if each.names[0] in chosen)
    return found | {"bias"} if "logit_bias" in chosen else found


def is_question(text: str) -> bool:
    """Tell whether a lone argument cannot be a model, and so is a question."""
    return any(each.isspace() for each in text) and not place(text).exists()


def known(name: str) -> str:
    """Resolve a path, so that it means the same from other directories; return a name as it is."""
    path = place(name)
    return str(path.absolute()) if name and path.exists() else name


def chosen(
    door: Here | AttachedServer, name: str, before: str, loading: Loading, *, asks: bool
) -> str:
    """Choose the named model, that of the conversation before, or one that the user picks."""
    if isinstance(door, AttachedServer):
        return name or (before if before in door.names() else door.names()[0])
    choose = choice.chosen if asks else choice.without_asking
    found = name or before or choose(loading) or choice.STARTER
    door.pull(found)
    return found

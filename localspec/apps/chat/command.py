"""The command `localspec chat`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields

from localspec.apps.chat import choice, conversations, session
from localspec.apps.chat.commands.conversation import recall
from localspec.apps.chat.commands.table import CommandWords
from localspec.apps.chat.loop import converse
from localspec.apps.chat.named_settings import apply
from localspec.apps.chat.once import once, print_notices, whole_question
from localspec.apps.chat.options import ChatCommandOptions
from localspec.apps.chat.session import Session
from localspec.apps.chat.talk import ModelSource, Talk
from localspec.apps.chat.terminal.editor import Asking, Typing
from localspec.apps.chat.terminal.screen import Screen
from localspec.apps.chat.terminal.typeahead import TypedAhead
from localspec.base.errors import UsageError
from localspec.base.system.signals import leaving
from localspec.base.system.supervisor import Supervise, unsupervised
from localspec.console.options.loading import LOADING
from localspec.console.options.reply import set_sampling_fields, settings, with_usual
from localspec.console.speakers.local_models import LocalModels
from localspec.console.speakers.server import AttachedServer
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.running.models.ollama_names import listed_name
from localspec.running.models.sources import expand_home, is_there
from localspec.running.runtime.loading import Loading


def chat(
    options: ChatCommandOptions, name: str, question: str, supervise: Supervise = unsupervised
) -> None:
    """Answer one question, or all that are typed; a chat whose engine was ended goes on."""
    chat_options, loading = options.chat, options.loading
    check(options)
    source = model_source(options)
    conversation, name, question = find_conversation(chat_options.resume or "", name, question)
    name, question = model_and_question(source, name, question)
    question = read_question(question, lens=chat_options.lens)
    name = resolve_path(name if chat_options.attach else listed_name(name))
    in_process = not chat_options.attach and loading.options.members == 1
    child = supervise(again=not question) if in_process else unsupervised()
    resumes, notices = chat_options.resume is not None or not child.is_first, list[str]()
    if resumes and (conversation is None or not child.is_first):
        conversation, notices = session.last(name)
    before = conversation.model if conversation else ""
    name = model_to_open(source, name, before, loading, asks=not question)
    continued = conversation or Session()
    continued.system = chat_options.system or continued.system
    if not question:
        beginning = Beginning(name, continued, notices, chat_options.lens, resumes)
        run_at_terminal(source, beginning, child.report_ready)
        return
    print_notices(notices)
    speaker = source.open(name)
    try:
        once(speaker, apply(source.usual(name), continued.wishes), continued, question)
    finally:
        speaker.close()
    if conversation:
        conversation.keep()


def check(options: ChatCommandOptions) -> None:
    """Refuse options that would have no effect."""
    of_loading = {option.name for record in LOADING for option in fields(record)}
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
    question = whole_question(question)
    if not question and not (typed and sys.stdout.isatty()):
        raise UsageError("there is nothing to answer: give a question, or talk at a terminal")
    return question


def find_conversation(resume: str, name: str, question: str) -> tuple[Session | None, str, str]:
    """Find the conversation to resume; where there is none, that was the first argument."""
    if not resume:
        return None, name, question
    if conversation := conversations.find(resume):
        return conversation.session, name, question
    if question:
        raise UsageError(f"no conversation begins with {resume!r}; /list in a chat shows all")
    return None, resume, name


def model_and_question(
    source: LocalModels | AttachedServer, name: str, question: str
) -> tuple[str, str]:
    """Return the model and the question; a lone argument, in `name`, may be either."""
    if question or not name:
        return name, question
    is_model = (
        name in source.names() if isinstance(source, AttachedServer) else not is_question(name)
    )
    return (name, "") if is_model else ("", name)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The state in which a chat at a terminal begins."""

    model: str
    session: Session
    notices: Sequence[str] = ()
    lens: bool = False
    resumes: bool = False


def run_at_terminal(
    source: ModelSource, beginning: Beginning, report_ready: Callable[[], object] = lambda: None
) -> None:
    """Run the chat at a terminal until the user leaves."""
    screen = Screen()
    ahead = None if screen.console.is_dumb_terminal else TypedAhead(sys.stdout)
    with leaving(), ahead.held() if ahead else nullcontext():
        speaker = source.open(beginning.model)
        report_ready()
        before = beginning.session.model
        talk = Talk(source, speaker, screen, beginning.session, lens=beginning.lens)
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
    talk.screen.faint("/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves")
    talk.screen.gap()


def model_source(options: ChatCommandOptions) -> LocalModels | AttachedServer:
    requested, set_by_user = settings(options.reply), set_sampling_fields(options.chosen)
    if not options.chat.attach:
        return LocalModels(options.loading, options.draft, requested, set_by_user)

    def usual(sampling: Sampling) -> Settings:
        return with_usual(sampling, requested, set_by_user)

    return AttachedServer(options.chat.attach, options.chat.key or "", usual)


def is_question(text: str) -> bool:
    """Return whether a lone argument cannot be a model, and so is a question."""
    return any(character.isspace() for character in text) and not is_there(expand_home(text))


def resolve_path(name: str) -> str:
    """Resolve a path, so that it means the same from other directories; return a name as it is."""
    path = expand_home(name)
    return str(path.absolute()) if name and is_there(path) else name


def model_to_open(
    source: LocalModels | AttachedServer, name: str, before: str, loading: Loading, *, asks: bool
) -> str:
    """Choose the named model, that of the conversation before, or one that the user picks."""
    if isinstance(source, AttachedServer):
        return name or (before if before in source.names() else source.names()[0])
    choose = choice.choose_model if asks else choice.without_asking
    model = name or before or choose(loading) or choice.STARTER
    source.pull(model)
    return model

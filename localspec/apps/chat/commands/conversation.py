"""Commands for conversations: this one, and those that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from localspec.apps.chat import conversations, files, named_settings, session
from localspec.apps.chat.commands.command import OFF, add, columns
from localspec.apps.chat.conversations import KeptConversation
from localspec.apps.chat.session import ChatMessage, Session
from localspec.apps.chat.status import quantity
from localspec.apps.chat.talk import Talk
from localspec.apps.chat.terminal import clipboard
from localspec.apps.chat.terminal.folds import MAX_LINES
from localspec.base.errors import UsageError
from localspec.base.system.atomic_write import write

MAX_LISTED = 20
FIRST_LINES = 3  # of a long question that is shown again


def new(talk: Talk, _: str) -> None:
    begin_anew(talk)
    talk.screen.faint("a new conversation; the last one is kept")


def begin_anew(talk: Talk) -> None:
    before = talk.session
    talk.session = Session(before.model, before.system, wishes=before.wishes)
    talk.next, talk.heard = ChatMessage.empty(), []


def list_(talk: Talk, _: str) -> None:
    everything = conversations.everything()
    if not everything:
        raise UsageError("no conversation is kept yet")
    show(talk, [(conversation, "") for conversation in everything], "/search WORDS finds them")


def search(talk: Talk, text: str) -> None:
    if not text:
        raise UsageError("give words to look for: /search WORDS")
    matches = conversations.search(text)
    if not matches:
        raise UsageError(f"no conversation has {text!r} in it")
    show(talk, matches, "give more words")


def show(talk: Talk, listed: Sequence[tuple[KeptConversation, str]], hint: str) -> None:
    """List conversations, each with an excerpt; /resume and /delete take their numbers."""
    talk.listed = [conversation.path for conversation, _ in listed]
    rows = columns()
    for justify in ("right", "left", "right"):
        rows.add_column(justify=justify, no_wrap=True)
    for at, (conversation, excerpt) in enumerate(listed[:MAX_LISTED], start=1):
        mark = "*" if conversation.path.stem == talk.session.name else ""
        count = quantity(len(conversation.session.said), "message")
        add(rows, f"{mark}{at}", conversation.when, count, conversation.title)
        if excerpt:
            add(rows, "", "", "", excerpt, style="dim")
    talk.screen.show(rows)
    if len(listed) > MAX_LISTED:
        talk.screen.faint(f"and {len(listed) - MAX_LISTED:,} older; {hint}")


def resume(talk: Talk, name: str) -> None:
    if not name:
        list_(talk, "")
        talk.screen.faint("/resume NAME goes on with one, by its number or its beginning")
        return
    go_on(talk, find(talk, name).session)


def find(talk: Talk, name: str) -> KeptConversation:
    conversation = conversations.find(name, talk.listed)
    if conversation is None:
        raise UsageError(f"no conversation begins with {name!r}; /search WORDS looks inside them")
    return conversation


def go_on(talk: Talk, conversation: Session) -> None:
    other, conversation.model = conversation.model, talk.speaker.name
    talk.session, talk.heard, talk.next = conversation, [], ChatMessage.empty()
    recall(talk, other)


def delete(talk: Talk, name: str) -> None:
    if not name:
        raise UsageError("name a conversation: /delete NAME, by its number or its beginning")
    conversation = find(talk, name)
    conversation.session.discard()
    if conversation.session.name == talk.session.name:
        begin_anew(talk)
    talk.screen.faint(f"deleted: {conversation.title}")


def undo(talk: Talk, _: str) -> None:
    first, _, _ = talk.session.question.content.strip().partition("\n")
    talk.session = talk.session.before()
    talk.keep()
    talk.screen.faint(f"taken back: {first[:60]}")


def save(talk: Talk, path: str) -> None:
    session.save(talk.session, new_file(path))
    talk.screen.faint(f"saved in {path}")


def load(talk: Talk, path: str) -> None:
    if not path:
        raise UsageError("name a file: /load FILE")
    go_on(talk, session.load(files.expand_home(path)))


def recall(talk: Talk, other: str) -> None:
    """Show the end of a loaded conversation, and check its model and settings."""
    messages = talk.session.said
    talk.screen.faint(f"{quantity(len(messages), 'message')}{', the last:' if messages else ''}")
    for message in messages[-2:]:
        if message.role == "user":
            talk.screen.say(f"> {beginning(message.content)}", "bold")
        else:
            talk.screen.markdown(message.content)
    if other != talk.speaker.name:
        talk.screen.notice(f"it was with {other}: /model {other} goes on with that")
    talk.tell_of_pictures()
    try:
        named_settings.apply(talk.usual, talk.session.wishes)
    except UsageError as error:
        talk.screen.notice(f"what was /set is left out: {error}")
        talk.session.wishes = {}
    talk.screen.gap()


def beginning(text: str) -> str:
    """Cut a long text, as a paste is, after its first lines."""
    lines = text.split("\n")
    if len(lines) <= MAX_LINES:
        return text
    return "\n".join([*lines[:FIRST_LINES], f"[and {len(lines) - FIRST_LINES:,} more lines]"])


def export(talk: Talk, path: str) -> None:
    file = new_file(path)
    try:
        write(file, talk.session.markdown())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    talk.screen.faint(f"written to {path}")


def new_file(path: str) -> Path:
    if not path:
        raise UsageError("name a file")
    file = files.expand_home(path)
    try:
        if file.exists():
            raise UsageError(f"{path} is there already: choose another name")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path!r} can be no file: {error}") from error
    return file


def copy(talk: Talk, _: str) -> None:
    terminal = talk.screen.console.file if talk.screen.moves else None
    talk.screen.faint(clipboard.copy(talk.session.answer, terminal))


def file(talk: Talk, path: str) -> None:
    if not path:
        raise UsageError(f"name a file: /file PATH, or {OFF} for none")
    if path == OFF:
        talk.next = ChatMessage.empty()
        talk.screen.faint("no files go with the next question")
        return
    talk.attach(path, talk.next)
    talk.screen.faint(f"{path} goes with the next question")


def image(talk: Talk, path: str) -> None:
    if path not in ("", OFF):
        files.picture_of(path)  # which refuses what is no picture
    file(talk, path)

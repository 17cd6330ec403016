"""The commands of the chat, which begin with a slash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from rich.table import Table

from localspec.chat import files, session, wishes
from localspec.chat.session import Session
from localspec.chat.status import statistics
from localspec.chat.talk import Talk
from localspec.chat.terminal import clipboard
from localspec.errors import UsageError
from localspec.grammar.grammar import Grammar
from localspec.system.atomic_write import write

ON, OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Command:
    takes: str  # what it goes on with
    about: str
    run: Callable[[Talk, str], bool | None]  # False: it was stopped
    values: Callable[[Talk], Sequence[str]] | None = None  # what that may be; None: a path


def is_one(line: str) -> bool:
    """Tell whether a line is a command; a path has a second slash."""
    return bool(re.match(r"/[^\s/]*(\s|$)", line))


def run(talk: Talk, line: str) -> bool:
    """Run a command; return False if it was interrupted."""
    name, *rest = line.split(maxsplit=1)
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "/help tells what there is"
        raise UsageError(f"there is no {name}; {hint}")
    talk.unedit()
    return COMMANDS[name].run(talk, "".join(rest).strip()) is not False


class CommandWords:
    """The words that the editor can complete."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def names(self) -> Iterable[tuple[str, str]]:
        return ((name, command.about) for name, command in COMMANDS.items())

    def values(self, command: str) -> Sequence[str] | None:
        known = COMMANDS.get(command)
        if known is None:
            return ()
        return known.values(self._talk) if known.values else None


def help_(talk: Talk, _: str) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, command in COMMANDS.items():
        table.add_row(f"{name} {command.takes}".strip(), command.about)
    table.add_row("@PATH", "in a question: put a file into it")
    table.add_row("Alt-Enter", "begin a new line; so does Enter between three quotes")
    table.add_row("Ctrl-C", "stop the answer; twice, or Ctrl-D: leave")
    talk.screen.show(table)


def model(talk: Talk, name: str) -> None:
    if name:
        talk.change(name)
        return
    for each in talk.door.names():
        talk.screen.say(f"{'*' if each == talk.speaker.name else ' '} {each}")


def system(talk: Talk, text: str) -> None:
    if not text:
        talk.screen.say(talk.session.system or "there is no system prompt")
        return
    talk.session.system = "" if text == OFF else text
    talk.screen.faint("the system prompt is set" if text != OFF else "no system prompt any more")


def set_(talk: Talk, text: str) -> None:
    if not text:
        for name, value in wishes.shown(talk.settings).items():
            talk.screen.say(f"{name:<12} {value}")
        return
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not value.strip():
        raise UsageError("write it as /set temperature=0.7; /set alone tells how all are")
    wanted = {**talk.session.wishes, name: value.strip()}
    wishes.wished(talk.usual, wanted)  # which refuses what cannot be
    talk.session.wishes = wanted
    talk.screen.faint(f"{name} is {wishes.shown(talk.settings)[name]}")


def plain(talk: Talk, text: str) -> None:
    talk.plain = switched(text, talk.plain)
    nothing = talk.settings.depth == 0  # which may have been wished otherwise too
    talk.screen.faint("nothing is drafted" if nothing else "tokens are drafted where it pays")


def lens(talk: Talk, text: str) -> None:
    talk.lens = switched(text, talk.lens)
    if talk.lens and not talk.screen.colours:
        talk.screen.notice("this terminal has no colours to show it in")
    else:
        talk.screen.faint(
            "tokens have the colour of their proposer" if talk.lens else "answers are Markdown"
        )


def switched(text: str, before: bool) -> bool:
    if text not in ("", ON, OFF):
        raise UsageError(f"it is {ON} or {OFF}, not {text!r}")
    return text == ON if text else not before


def retry(talk: Talk, _: str) -> bool:
    return talk.again()


def undo(talk: Talk, _: str) -> None:
    first, _, _ = talk.session.question.content.strip().partition("\n")
    talk.session = talk.session.before()
    talk.keep()
    talk.screen.faint(f"taken back: {first[:60]}")


def edit(talk: Talk, _: str) -> None:
    talk.edit()


def save(talk: Talk, path: str) -> None:
    session.save(talk.session, place_for(path))
    talk.screen.faint(f"saved in {path}")


def load(talk: Talk, path: str) -> None:
    if not path:
        raise UsageError("say which file: /load FILE")
    found = session.load(files.place(path))
    other, found.model = found.model, talk.speaker.name
    talk.session, talk.heard = found, []
    recall(talk, other)


def recall(talk: Talk, other: str) -> None:
    """Show the end of a loaded conversation, and check its model and settings."""
    said = talk.session.said
    talk.screen.faint(f"{len(said):,} messages{', the last:' if said else ''}")
    for each in said[-2:]:
        if each.role == "user":
            talk.screen.say(f"> {each.content}", "bold")
        else:
            talk.screen.markdown(each.content)
    if other != talk.speaker.name:
        talk.screen.notice(f"it was with {other}: /model {other} goes on with that")
    try:
        wishes.wished(talk.usual, talk.session.wishes)
    except UsageError as error:
        talk.screen.notice(f"what was /set is left out: {error}")
        talk.session.wishes = {}
    talk.screen.gap()


def export(talk: Talk, path: str) -> None:
    place = place_for(path)
    try:
        write(place, talk.session.markdown())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    talk.screen.faint(f"written to {path}")


def place_for(path: str) -> Path:
    if not path:
        raise UsageError("say which file")
    place = files.place(path)
    try:
        if place.exists():
            raise UsageError(f"{path} is there already: choose another name")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path!r} can be no file: {error}") from error
    return place


def copy(talk: Talk, _: str) -> None:
    terminal = talk.screen.console.file if talk.screen.moves else None
    talk.screen.faint(clipboard.copy(talk.session.answer, terminal))


def file(talk: Talk, path: str) -> None:
    if not path:
        raise UsageError(f"say which file: /file PATH, or {OFF} for none")
    if path == OFF:
        talk.files = {}
        talk.screen.faint("no files go with the next question")
        return
    talk.files[path] = files.text_of(path)
    talk.screen.faint(f"{path} goes with the next question")


def prediction(talk: Talk, path: str) -> None:
    if not path:
        raise UsageError(f"say which file answers are likely to repeat, or {OFF}")
    talk.prediction = "" if path == OFF else files.text_of(path)
    talk.screen.faint("nothing is predicted" if path == OFF else f"{path} is used for drafts")


def json_(talk: Talk, text: str) -> None:
    if not text:
        raise UsageError(f'say which schema: a file, JSON as {{"type": "object"}}, or {OFF}')
    if text == OFF:
        talk.schema = None
        talk.screen.faint("answers are free")
        return
    given = text if text.startswith("{") else files.text_of(text)
    try:
        schema = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the schema is no JSON: {error}") from error
    if not isinstance(schema, dict):
        raise UsageError("the schema is no JSON object")
    talk.schema = Grammar("json_schema", json.dumps(schema))
    talk.screen.faint("answers follow the schema")


def stats(talk: Talk, _: str) -> None:
    if not talk.heard:
        raise UsageError("nothing was answered yet")
    for each in statistics(talk.heard):
        talk.screen.show(each)


def clear(talk: Talk, _: str) -> None:
    before = talk.session
    talk.session = Session(before.model, before.system, wishes=before.wishes)
    talk.files, talk.heard = {}, []
    talk.screen.faint("a new conversation; the last one is kept")


def quit_(talk: Talk, _: str) -> None:
    talk.over = True


def nothing(_: Talk) -> Sequence[str]:
    return ()


def switches(_: Talk) -> Sequence[str]:
    return ON, OFF


COMMANDS = {
    "/help": Command("", "what there is", help_, nothing),
    "/model": Command("[NAME]", "go on with another model", model, lambda talk: talk.door.names()),
    "/system": Command("[TEXT|off]", "what the model is told beforehand", system, nothing),
    "/set": Command(
        "[NAME=VALUE]",
        "how answers are sampled and drafted",
        set_,
        lambda talk: [f"{name}=" for name in wishes.NAMES],
    ),
    "/plain": Command("[on|off]", "answer without drafts", plain, switches),
    "/retry": Command("", "answer the last question once more", retry, nothing),
    "/undo": Command("", "take back the last question and its answer", undo, nothing),
    "/edit": Command("", "change the last question, and ask it again", edit, nothing),
    "/save": Command("FILE", "keep the conversation in a file", save),
    "/load": Command("FILE", "go on with one from a file", load),
    "/export": Command("FILE.md", "write it down as Markdown", export),
    "/copy": Command("", "the last answer to the clipboard", copy, nothing),
    "/file": Command("PATH|off", "put a file into the next question", file),
    "/prediction": Command("FILE|off", "a text that answers are likely to repeat", prediction),
    "/json": Command("SCHEMA|off", "answer in JSON by a schema", json_),
    "/stats": Command("", "what was drafted, and how much of it was accepted", stats, nothing),
    "/lens": Command("[on|off]", "colour each token by its proposer", lens, switches),
    "/clear": Command("", "begin a new conversation", clear, nothing),
    "/quit": Command("", "leave", quit_, nothing),
}

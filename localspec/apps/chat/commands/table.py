"""All commands, in groups, and how a line becomes one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from localspec.apps.chat import named_settings
from localspec.apps.chat.commands import conversation, figures, settings
from localspec.apps.chat.commands.command import Command, add, columns, switches
from localspec.apps.chat.talk import Talk
from localspec.base.errors import UsageError


def help_(talk: Talk, _: str) -> None:
    for heading, commands in GROUPS.items():
        talk.screen.say(heading, "bold")
        rows = columns()
        rows.add_column(width=WIDTH, no_wrap=True)
        for name, command in commands.items():
            add(rows, f"  {name} {command.takes}".rstrip(), command.about)
        for keys, about in KEYS.get(heading, {}).items():
            add(rows, f"  {keys}", about)
        talk.screen.show(rows)


def quit_(talk: Talk, _: str) -> None:
    talk.over = True


WIDTH = 25  # of the first column of /help
GROUPS: Mapping[str, Mapping[str, Command]] = {
    "This conversation": {
        "/retry": Command("", "answer the last question once more", lambda talk, _: talk.again()),
        "/edit": Command(
            "", "change the last question, and ask it again", lambda talk, _: talk.edit()
        ),
        "/undo": Command("", "take back the last question and its answer", conversation.undo),
        "/copy": Command("", "the last answer to the clipboard", conversation.copy),
        "/export": Command("FILE.md", "write it down as Markdown", conversation.export, None),
    },
    "All conversations, which are kept": {
        "/new": Command("", "begin a new one", conversation.new),
        "/list": Command("", "show them, the newest first", conversation.list_),
        "/resume": Command("NAME", "go on with one: its number or beginning", conversation.resume),
        "/search": Command("WORDS", "find those that have these words", conversation.search),
        "/delete": Command("NAME", "remove one for good", conversation.delete),
        "/save": Command("FILE", "keep this one in a file of your own", conversation.save, None),
        "/load": Command("FILE", "go on with one from such a file", conversation.load, None),
    },
    "The model, and how it answers": {
        "/model": Command(
            "[NAME]",
            "show the models here, or change to one",
            settings.model,
            lambda talk: talk.source.names(),
        ),
        "/system": Command("[TEXT|off]", "show or set the system prompt", settings.system),
        "/prompt": Command(
            "[NAME]",
            "list those with names, or use one; save NAME, forget NAME",
            settings.prompt,
            settings.prompt_words,
        ),
        "/set": Command(
            "[NAME=VALUE]",
            f"temperature and so on; NAME={named_settings.DEFAULT} resets",
            settings.set_,
            lambda _: [f"{name}=" for name in named_settings.NAMES],
        ),
        "/think": Command(
            "[on|off|N|auto]",
            "think before answering, N tokens at most",
            settings.think,
            lambda talk: (*switches(talk), named_settings.AUTO),
        ),
        "/plain": Command("[on|off]", "answer without drafts", settings.plain, switches),
        "/json": Command("SCHEMA|off", "answer in JSON by a schema", settings.json_, None),
        "/prediction": Command(
            "FILE|off", "a text that answers are likely to repeat", settings.prediction, None
        ),
    },
    "Figures": {
        "/why": Command("", "the last answer's speed, drafts and tokens", figures.why),
        "/context": Command("", "how full the context is, and of what", figures.context),
        "/stats": Command("", "drafts of all answers, by position", figures.stats),
        "/lens": Command("[on|off]", "colour each token by its proposer", figures.lens, switches),
    },
    "Asking": {
        "/file": Command("PATH|off", "put a file into the next question", conversation.file, None),
        "/image": Command("PATH|off", "put a picture into it", conversation.image, None),
        "/help": Command("", "this list", help_),
        "/quit": Command("", "leave", quit_),
    },
}
KEYS = {
    "Asking": {
        "@PATH": "in a question: put that file or picture into it",
        "Alt-Enter": 'begin a line; so does Enter after """',
        "Ctrl-X Ctrl-E": "write it in your editor, long pastes in full",
        "Ctrl-C": "stop the answer; twice, or Ctrl-D: leave",
    }
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
ALIASES = {"/clear": "/new", "/exit": "/quit", "/bye": "/quit", "/?": "/help"}  # of other chats


def is_one(line: str) -> bool:
    """Return whether a line is a command; a path has a second slash."""
    return bool(re.match(r"/[^\s/]*(\s|$)", line))


def run(talk: Talk, line: str) -> bool:
    """Run a command; return False if it was interrupted."""
    typed, *arguments = line.split(maxsplit=1)
    name = ALIASES.get(typed, typed)
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "/help lists them"
        raise UsageError(f"there is no {name}; {hint}")
    talk.unedit()
    return COMMANDS[name].run(talk, "".join(arguments).strip()) is not False


class CommandWords:
    """The words that the editor can complete."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def names(self) -> Iterable[tuple[str, str]]:
        return ((name, command.about) for name, command in COMMANDS.items())

    def values(self, command: str) -> Sequence[str] | None:
        chosen = COMMANDS.get(command)
        if chosen is None:
            return ()
        return chosen.values(self._talk) if chosen.values else None

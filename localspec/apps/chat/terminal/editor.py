"""The input line: history, several lines, and completion of commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import AfterInput

from localspec.apps.chat.session import folder
from localspec.apps.chat.terminal.folds import FoldedText, Folds
from localspec.apps.chat.terminal.typeahead import QUIET_SECONDS, TypedAhead, can_read
from localspec.apps.chat.terminal.typed_lines import LEAVE, QUOTE, is_open, pasted
from localspec.base.system.atomic_write import whole

PROMPT, MORE = "> ", ". "
MAX_FOLDED = 500  # entries of the history, the newest, that are folded where they are long
WAITS = "  (waits: Enter sends)"  # after a draft that was typed before the prompt
AT = "@"


class EditorWords(Protocol):
    """The words that can follow a slash."""

    def names(self) -> Iterable[tuple[str, str]]:
        """The commands, with what each does."""

    def values(self, command: str) -> Sequence[str] | None:
        """The values that a command takes; None: a path."""


class Editor(Protocol):
    def read(self, prefill: str = "") -> str | None:
        """Read what is typed; None at the end of input. Ctrl-C raises KeyboardInterrupt."""

    def forget(self) -> None:
        """Drop what was typed since."""


class Typing:
    """Reads at a terminal: Enter sends, Alt-Enter or Enter within three quotes begins a line.

    A line that was typed before, and ended by Enter, is sent; what was pasted, or not ended, is a
    draft, which nothing but a later Enter sends.
    """

    def __init__(self, words: EditorWords, ahead: TypedAhead) -> None:
        self._ahead = ahead
        self._folds = Folds()
        self._waiting = ""  # the draft, as it is drawn
        self._stopped = False  # whether the last answer was
        self._session: PromptSession[str] = PromptSession(
            input=ahead.keyboard,
            history=history(self._folds),
            input_processors=[FoldedText(self._folds), AfterInput(self._hint)],
            completer=Completing(words),
            complete_while_typing=Condition(self._commands),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=lambda width, _, wraps: " " * width if wraps else MORE,
        )

    def read(self, prefill: str = "") -> str | None:
        whole_draft, self._stopped = bool(prefill) and not self._stopped, False
        with self._ahead.released(whole=whole_draft) as typed, suppress(EOFError):
            if typed.is_sent:  # since an answer was stopped, whose question is in the history
                prefill = ""
            if typed.text == LEAVE and not prefill:
                return None
            draft = "\n".join(filter(None, (prefill, typed.text.replace(LEAVE, ""))))
            shown = self._folds.folded(draft)
            self._waiting = "" if prefill or typed.is_sent else shown
            text = self._session.prompt(PROMPT, default=shown, accept_default=typed.is_sent)
            return whole(self._folds.whole(unquote(text)))
        return None

    def forget(self) -> None:
        self._ahead.forget()
        self._stopped = True

    def _hint(self) -> StyleAndTextTuples:
        """Report that a draft which nobody touched was not sent."""
        app, text = get_app(), self._session.default_buffer.text
        is_waiting = bool(self._waiting) and text == self._waiting and not app.is_done
        return [("fg:ansibrightblack", WAITS)] if is_waiting else []

    def _commands(self) -> bool:
        """Complete commands only after a slash."""
        return self._session.default_buffer.text.startswith("/")

    def _more_comes(self, event: KeyPressEvent) -> bool:
        """Return whether Enter stands in a paste that the terminal does not mark."""
        if any(key.key != Keys.CPRResponse for key in event.key_processor.input_queue):
            return True
        # What waits may be the terminal's answer about its cursor.
        return not event.app.renderer.waiting_for_cpr and self._ahead.waits()

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if is_open(buffer.text) or self._more_comes(event):
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def begin_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text(self._folds.folded(pasted(event.data)))

        @keys.add("c-x", "c-e")
        def edit_elsewhere(event: KeyPressEvent) -> None:
            buffer, folds = event.current_buffer, self._folds
            buffer.text = folds.whole(buffer.text)

            def fold(_: object) -> None:
                buffer.document = Document(folds.folded(buffer.text))

            buffer.open_in_editor().add_done_callback(fold)

        @keys.add("c-c")
        def give_up(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if not buffer.text:
                event.app.exit(exception=KeyboardInterrupt, style="class:aborting")
            buffer.append_to_history()  # where it can be fetched from
            buffer.reset()

        return keys


class Asking:
    """Reads from a terminal that cannot move its cursor; what comes at once is one message."""

    def read(self, prefill: str = "") -> str | None:
        if prefill:
            print(f"it was: {prefill}")
        try:
            text = input(PROMPT)
            while is_open(text) or more_waits():
                text += "\n" + input(MORE)
        except EOFError:
            return None
        return unquote(whole(text))

    def forget(self) -> None:
        """Do nothing: Ctrl-C has dropped it."""


def more_waits() -> bool:
    """Return whether a plain terminal has another line of a paste."""
    windows = sys.platform == "win32"  # which has no way to ask
    return not windows and sys.stdin.isatty() and can_read(sys.stdin.fileno(), QUIET_SECONDS)


def unquote(text: str) -> str:
    inner = text.strip()
    if inner.startswith(QUOTE) and inner.endswith(QUOTE) and len(inner) >= 6:
        return inner[3:-3].strip("\n")
    return text


class Kept(FileHistory):
    """A history of whole texts that falls back to memory where its file cannot be written."""

    def __init__(self, path: Path, folds: Folds) -> None:
        super().__init__(path)
        self._folds = folds

    def load_history_strings(self) -> Iterator[str]:
        """Yield what was typed before, the newest first."""
        for at, text in enumerate(super().load_history_strings()):
            yield self._folds.folded(text) if at < MAX_FOLDED else text

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(whole(self._folds.whole(string)))


def history(folds: Folds) -> History:
    """Open the history of all conversations, for this user alone; in memory if that fails."""
    path = folder().parent / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    readable = path.is_file() and os.access(path, os.R_OK)
    return Kept(path, folds) if readable else InMemoryHistory()


class Completing(Completer):
    def __init__(self, words: EditorWords) -> None:
        self._words = words
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            yield from self._of_command(text, event)
        elif (at := text.rfind(AT)) >= 0 and not text[at - 1 : at].strip():
            path = text[at + 1 :]
            if not any(character.isspace() for character in path):
                yield from self._paths.get_completions(Document(path), event)

    def _of_command(self, text: str, event: CompleteEvent) -> Iterable[Completion]:
        command, space, argument = text.partition(" ")
        if not space:
            for name, about in self._words.names():
                if name.startswith(command):
                    yield Completion(name, -len(command), display_meta=about)
            return
        values = self._words.values(command)
        if values is None:
            yield from self._paths.get_completions(Document(argument), event)
        else:
            for value in values:
                if value.startswith(argument):
                    yield Completion(value, -len(argument))

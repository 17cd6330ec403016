"""A conversation in progress: its speaker, messages and settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from localspec.apps.chat import files, named_settings
from localspec.apps.chat.hearing import HeardAnswer, hear
from localspec.apps.chat.room import fitting, forgotten
from localspec.apps.chat.session import MAX_PICTURES, ChatMessage, Session
from localspec.apps.chat.status import status
from localspec.apps.chat.terminal.coloured import legend
from localspec.apps.chat.terminal.screen import Screen
from localspec.base.errors import LocalSpecError, PromptTooLong, UsageError
from localspec.base.system.power import is_on_battery
from localspec.base.system.signals import ENDINGS, held_back
from localspec.console.speakers.speaker import Speaker
from localspec.core.requests.settings import Settings
from localspec.formats.grammar.grammar import Grammar


class ModelSource(Protocol):
    """Opens speakers by name."""

    def names(self) -> Sequence[str]: ...

    def check(self, name: str) -> None:
        """Refuse a name that cannot be opened."""

    def open(self, name: str) -> Speaker: ...

    def who_sees(self) -> str:
        """Return which models take pictures."""

    def about(self, name: str) -> str:
        """Describe one of the models by name; empty if nothing is known of it."""

    def usual(self, name: str) -> Settings:
        """The settings of a model where the user has none."""


@dataclass(slots=True)
class Talk:
    source: ModelSource
    speaker: Speaker
    screen: Screen
    session: Session = field(default_factory=Session)
    lens: bool = False
    plain: bool = False
    think: bool | None = None  # before it answers; None: as its makers meant it to
    prediction: str | None = None  # None: the usual one
    schema: Grammar | None = None
    # The next question: files and pictures go with it.
    next: ChatMessage = field(default_factory=ChatMessage.empty)
    prefill: str = ""  # what the next line begins with
    editing: bool = False  # the next question takes the place of the last
    heard: list[HeardAnswer] = field(default_factory=list)
    listed: list[Path] = field(default_factory=list)  # conversations, by the numbers last shown
    over: bool = False
    on_stop: Callable[[], object] = lambda: None  # called by Ctrl-C, before all has stopped

    def __post_init__(self) -> None:
        self.session.model = self.speaker.name

    @property
    def usual(self) -> Settings:
        return self.source.usual(self.speaker.name)

    @property
    def settings(self) -> Settings:
        settings = named_settings.apply(self.usual, self.session.wishes)
        depth = 0 if self.plain else settings.depth
        predicted = settings.prediction if self.prediction is None else self.prediction
        return replace(settings, depth=depth, prediction=predicted, grammar=self.schema)

    @property
    def changes(self) -> Sequence[str]:
        """List the settings that are not default, in a few words each."""
        usual = self.usual
        chosen = named_settings.apply(usual, self.session.wishes)
        named = [" ".join(change) for change in named_settings.differences(usual, chosen).items()]
        switches = {
            "no drafts": self.plain,
            "thinking": self.think is True,
            "no thinking": self.think is False,
            "JSON": self.schema is not None,
        }
        return [*named, *(name for name, is_so in switches.items() if is_so)]

    def ask(self, question: str) -> bool:
        """Answer a question, or give it back; return False if it was stopped."""
        self.prefill = question
        message = self.next.with_content(question)
        for path in self._named(question):
            self.attach(path, message)
            self.screen.faint(f"with {path}")
        for path in files.missing(question):
            self.screen.faint(f"there is no file {path}: the question has only its name")
        before = self.session.before() if self.editing else self.session
        heard = self._answer(message, before)
        if heard.anything:
            self.prefill, self.next, self.editing = "", ChatMessage.empty(), False
        return not heard.stopped

    def read_ahead(self) -> None:
        """Have the model read the conversation while the next question is typed."""
        if not self.session.said or is_on_battery():
            return
        *messages, _ = self.session.messages(ChatMessage.empty())
        with suppress(LocalSpecError):  # the question hears of it
            self.speaker.read_ahead(messages, self.settings, think=self.think)

    def _named(self, question: str) -> Sequence[str]:
        """List the files that a question names; paths of pictures count where a model sees."""
        pasted = files.pasted_pictures(question) if self.speaker.sees else []
        return list(dict.fromkeys([*files.mentioned_files(question), *pasted]))

    def attach(self, path: str, question: ChatMessage) -> None:
        """Put a file or a picture into a question."""
        if not files.is_picture(path):
            question.files[path] = files.text_of(path)
            return
        if self.speaker.sees is False:
            fault = f"{path} is a picture, and {self.speaker.name} reads text only"
            raise UsageError("; ".join(filter(None, (fault, self.source.who_sees()))))
        picture = files.picture_of(path)
        total = sum(map(len, (*self.session.pictures, *question.pictures.values(), picture)))
        if total > MAX_PICTURES:
            raise UsageError(
                f"the pictures of this conversation would have {total:,} bytes; they may have "
                f"{MAX_PICTURES:,}: /new begins another"
            )
        question.pictures[path] = picture

    def again(self) -> bool:
        """Answer the last question once more; the first answer stays if there is no other."""
        return not self._answer(self.session.question, self.session.before()).stopped

    def edit(self) -> None:
        """Edit the last question; it stays until the new one is answered."""
        question = self.session.question
        named = self._named(question.content)
        self.prefill, self.editing = question.content, True
        self.next = question.with_content("", without=named)

    def unedit(self) -> None:
        """Restore the last question."""
        if self.editing:
            self.next, self.editing = ChatMessage.empty(), False

    def _answer(self, question: ChatMessage, before: Session) -> HeardAnswer:
        """Answer a question; restore the conversation if no answer comes."""
        session, heard = replace(before, said=list(before.said)), HeardAnswer()
        try:
            self._hear(session, question, heard)
            while isinstance(heard.error, PromptTooLong) and session.forget():
                heard.error = None  # of one who does not count tokens beforehand
                self.screen.notice(f"too long: {forgotten(session)}")
                self._hear(session, question, heard)
        finally:
            if heard.anything:
                with held_back(*ENDINGS):  # a terminal that closes sends one after an error
                    self._add(session, question, heard)
        self._close(heard)
        return heard

    def _add(self, session: Session, question: ChatMessage, heard: HeardAnswer) -> None:
        """Go on with a conversation and its new answer, and keep it."""
        cut = heard.ended is None or heard.stopped
        session.said += [question, ChatMessage("assistant", heard.text, heard.thought, cut)]
        self.session = session
        self.heard.append(heard)
        self.keep()

    def _hear(self, session: Session, question: ChatMessage, heard: HeardAnswer) -> None:
        messages, notice = fitting(session, self.speaker, question)
        if notice:
            self.screen.notice(notice)
        answer = self.speaker.ask(messages, self.settings, think=self.think)
        hear(answer, self.screen.view(lens=self.lens), heard, self.on_stop)

    def change(self, name: str) -> None:
        """Change to another model; if it cannot be opened, keep the present one."""
        self.source.check(name)
        before = self.speaker.name
        self.speaker.close()
        try:
            self.speaker = self.source.open(name)
        except (LocalSpecError, KeyboardInterrupt):
            self.screen.notice(f"{before} goes on")
            self.speaker = self.source.open(before)
            raise
        self.session.model = self.speaker.name
        self.session.forgotten = 0  # its context may be larger
        self.introduce()
        self.tell_of_pictures()
        if changes := self.changes:
            self.screen.notice(
                f"this goes along: {', '.join(changes)}; /set NAME={named_settings.DEFAULT} resets"
            )

    def introduce(self) -> None:
        for line in self.speaker.about:
            self.screen.faint(line)

    def tell_of_pictures(self) -> None:
        if self.session.pictures and self.speaker.sees is False:
            self.screen.notice("it reads text only: the pictures of this conversation are left out")

    def keep(self) -> None:
        try:
            self.session.keep()
        except LocalSpecError as error:
            self.screen.error(str(error))

    def _close(self, heard: HeardAnswer) -> None:
        if heard.ended:
            if not (heard.anything or heard.stopped):
                self.screen.notice("the answer is empty")
            self.screen.faint(status(heard.ended, (*self.changes, "/why")))
            for notice in heard.ended.notices:
                self.screen.notice(notice)
        if self.lens and self.screen.colours and heard.figures.by_source:
            self.screen.show(legend(heard.figures.by_source))
        if heard.error:
            self.screen.error(str(heard.error))
        self.screen.gap()

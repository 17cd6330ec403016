"""A conversation in progress: who answers, what was said, and what is wished of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from localspec.chat import files, wishes
from localspec.chat.coloured import legend
from localspec.chat.hearing import Heard, hear
from localspec.chat.screen import Screen
from localspec.chat.session import Said, Session
from localspec.chat.speaker import Speaker
from localspec.chat.status import status
from localspec.errors import LocalSpecError, PromptTooLong
from localspec.grammar import Grammar
from localspec.message import Message
from localspec.settings import Settings

ROOM = 512  # tokens that are kept for an answer, where the context is large enough
ENOUGH = 0.75  # of the context; so much is kept when it is full, so that it is not soon full again


class Door(Protocol):
    """Where those who answer come from."""

    def names(self) -> Sequence[str]: ...

    def check(self, name: str) -> None:
        """Refuse a name by which nobody would come."""

    def open(self, name: str) -> Speaker: ...

    def usual(self, name: str) -> Settings:
        """What is wished of its answers if nobody says anything."""


@dataclass(slots=True)
class Talk:
    door: Door
    speaker: Speaker
    screen: Screen
    session: Session = field(default_factory=Session)
    lens: bool = False
    plain: bool = False
    prediction: str = ""
    schema: Grammar | None = None
    files: dict[str, str] = field(default_factory=dict)  # that go with the next question
    begun: str = ""  # what the next line begins with
    heard: list[Heard] = field(default_factory=list)
    over: bool = False

    def __post_init__(self) -> None:
        self.session.model = self.speaker.name

    @property
    def usual(self) -> Settings:
        return self.door.usual(self.speaker.name)

    @property
    def settings(self) -> Settings:
        found = wishes.wished(self.usual, self.session.wishes)
        depth = 0 if self.plain else found.depth
        return replace(found, depth=depth, prediction=self.prediction, grammar=self.schema)

    def ask(self, question: str) -> bool:
        """Have a question answered; False: it was stopped."""
        for path in files.mentioned(question):
            self.files[path] = files.text_of(path)
        parts = [question, *(files.quoted(*each) for each in self.files.items())]
        heard = self.answer("\n\n".join(parts))
        if heard.text or heard.thought:
            self.files = {}
        else:
            self.begun = question
        return not stopped(heard)

    def answer(self, question: str) -> Heard:
        """Answer a question as it is, and keep both; what was not answered is not kept."""
        messages = self._fitting(question)
        answer = self.speaker.ask(messages, self.settings)
        heard = hear(answer, self.screen.view(lens=self.lens))
        if heard.text or heard.thought:
            self.heard.append(heard)
            self.session.said.append(Said("user", question))
            cut = stopped(heard) or heard.error is not None
            self.session.said.append(Said("assistant", heard.text, heard.thought, cut))
            self.keep()
        self._close(heard)
        return heard

    def again(self) -> None:
        """The last question once more; its first answer stays if there is no other."""
        before = list(self.session.said)
        if not self.answer(self.session.take_back()).text:
            self.session.said = before

    def change(self, name: str) -> None:
        """Go on with another model; if it cannot be had, with the one that was there."""
        self.door.check(name)
        before = self.speaker.name
        self.speaker.close()
        try:
            self.speaker = self.door.open(name)
        except (LocalSpecError, KeyboardInterrupt):
            self.speaker = self.door.open(before)
            raise
        self.session.model = self.speaker.name
        self.introduce()

    def introduce(self) -> None:
        for line in self.speaker.about:
            self.screen.faint(line)

    def keep(self) -> None:
        try:
            self.session.keep()
        except LocalSpecError as error:
            self.screen.error(str(error))

    def _fitting(self, question: str) -> list[Message]:
        """What the model is to hear: all of it, or what there is room for but the oldest turns."""
        session, context = self.session, self.speaker.context
        before = session.forgotten
        messages = session.messages(question)
        count = self.speaker.count(messages)
        if count is None or not context or count <= context - min(ROOM, context // 4):
            return messages
        while count > ENOUGH * context and session.forget():
            messages = session.messages(question)
            count = self.speaker.count(messages) or 0
        if count >= context:
            session.forgotten = before
            raise PromptTooLong(
                f"the message is {count:,} tokens, the system prompt included; the context holds "
                f"{context:,}: shorten it, or load the model with --context {count + ROOM}"
            )
        if session.forgotten > before:
            self.screen.notice(
                f"the context of {context:,} tokens is full: the model hears the oldest "
                f"{session.forgotten:,} messages no more"
            )
        return messages

    def _close(self, heard: Heard) -> None:
        if heard.ended:
            self.screen.faint(status(heard.ended, self.speaker.context))
            for notice in heard.ended.notices:
                self.screen.notice(notice)
        if self.lens and self.screen.colours and heard.figures.by_source:
            self.screen.show(legend(heard.figures.by_source))
        if heard.error:
            self.screen.error(str(heard.error))
        self.screen.gap()


def stopped(heard: Heard) -> bool:
    return heard.ended is not None and heard.ended.finish == "cancelled"

"""Parts of a reply: content, reasoning and calls, as they become sure."""

from __future__ import annotations

from dataclasses import dataclass

BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call begins; its arguments follow."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the JSON object that a call is given."""

    index: int
    text: str


Part = Content | Reasoning | Call | Arguments


class Parts:
    """Collects parts; blanks at the edges of reasoning and next to calls are left out."""

    def __init__(self) -> None:
        self._ready: list[Part] = []
        self._content = _TrimmedText()
        self._reasoning = _TrimmedText()
        self._calls = 0
        self._alone = True  # neither reasoning nor a call so far
        self.complete = True  # whether the newest call has all of its arguments

    def say(self, text: str) -> None:
        if text := self._content.add(text, keep=self._alone):
            self._ready.append(Content(text))

    def think(self, text: str) -> None:
        self._alone = False
        if text := self._reasoning.add(text, keep=False):
            self._ready.append(Reasoning(text))

    def call(self, name: str) -> None:
        self._ready.append(Call(self._calls, name))
        self._calls += 1
        self._alone = False
        self._content.pause()
        self.complete = False

    def argue(self, text: str) -> None:
        if text:
            self._ready.append(Arguments(self._calls - 1, text))

    def end_call(self) -> None:
        self.complete = True

    def add_call(self, name: str, arguments: str) -> None:
        """Add a whole call at once."""
        self.call(name)
        self.argue(arguments)
        self.end_call()

    def take(self) -> list[Part]:
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        """End the reply: the last blanks count where all of the reply is content."""
        if self._alone and (blanks := self._content.release(keep=True)):
            self._ready.append(Content(blanks))


class _TrimmedText:
    """A text whose last blanks wait until it is known what follows.

    begun: whether any text but blanks was returned
    """

    def __init__(self) -> None:
        self.begun = False
        self._blanks: list[str] = []
        self._before = ""

    def pause(self) -> None:
        """Note a call: the blanks before it count only if none follow it."""
        self._before = self.release(keep=False)

    def add(self, text: str, keep: bool) -> str:
        """Return the text that is sure now; `keep`: whether blanks at the very start count."""
        inner = text.strip(BLANKS)
        # `inner` stands in it once, as all around it is blank.
        first_blanks, last_blanks = text.split(inner) if inner else (text, "")
        self._blanks.append(first_blanks)
        if not inner:
            return ""
        sure = self.release(keep) + inner
        self._blanks.append(last_blanks)
        self.begun = True
        return sure

    def release(self, keep: bool) -> str:
        """Return the blanks that wait, and forget them."""
        blanks = "".join(self._blanks) or self._before
        self._blanks.clear()
        self._before = ""
        return blanks if self.begun or keep else ""

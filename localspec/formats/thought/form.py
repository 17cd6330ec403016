"""How a reply shows where it thinks: by its dialect in text, and for one reply in tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Place(NamedTuple):
    """The place that a reply has come to: within a thought, or outside of any."""

    thinks: bool = False
    tail: bytes = b""  # the end of its text, in which a mark may have begun
    held: int = 0  # bytes of the tail that may be the beginning of the end of a thought
    begins: bool = False  # whether all of its text, but for blanks, is in the tail
    chooses: bool = False  # whether the next word decides if a thought begins
    over: bool = False  # whether no thought can begin any more


class ThoughtForm(Protocol):
    """Follows a reply by the bytes of its tokens, control tokens spelled out."""

    @property
    def start(self) -> Place:
        """The place where the prompt ends."""

    def read(self, place: Place, piece: bytes) -> Place:
        """Return the place after another token; a pure function."""


class ThoughtCourse(NamedTuple):
    """A reply's thoughts so far, in tokens."""

    place: Place
    tokens: int = 0  # of thoughts, but for the marks around these
    held: int = 0  # tokens that belong to the thought only if it does not end with them

    def after(self, form: ThoughtForm, piece: bytes) -> ThoughtCourse:
        """Return the course after another token."""
        before, place = self.place, form.read(self.place, piece)
        if not (before.thinks and place.thinks):
            return ThoughtCourse(place, self.tokens)
        if not 0 < len(piece) <= place.held:
            return ThoughtCourse(place, self.tokens + self.held + 1)
        if place.held == before.held + len(piece):
            return ThoughtCourse(place, self.tokens, self.held + 1)
        return ThoughtCourse(place, self.tokens + self.held, 1)


class ThoughtCount:
    """Counts the tokens of a reply that belong to its thoughts, as it goes on."""

    def __init__(self, form: ThoughtForm, spell: Callable[[int], bytes]) -> None:
        self._form, self._spell = form, spell
        self._course = ThoughtCourse(form.start)

    @property
    def tokens(self) -> int:
        return self._course.tokens + self._course.held

    def add(self, tokens: Sequence[int]) -> None:
        """Follow tokens of the reply."""
        for token in tokens:
            if self._course.place.over:
                return
            self._course = self._course.after(self._form, self._spell(token))


class ThoughtMarks(NamedTuple):
    """A dialect's thoughts in one reply."""

    form: ThoughtForm
    closing: str  # the text that ends a thought, as the model writes it
    word: str = ""  # that begins a thought where the reply chooses


@dataclass(frozen=True, slots=True)
class Thoughts:
    """The thoughts of one reply, in the tokens of its model."""

    form: ThoughtForm
    closing: tuple[int, ...] = ()  # end a thought; empty where none may be ended
    refused: tuple[int, ...] = ()  # begin a thought where the reply chooses


def ends_within_character(text: bytes) -> bool:
    """Whether a text ends in the middle of a UTF-8 sequence."""
    for length, byte in enumerate(reversed(text[-3:]), 1):
        if byte >= 0xC0:
            return length < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
        if byte < 0x80:
            break
    return False

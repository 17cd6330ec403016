"""Reasoning within marks, at the beginning of a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.formats.dialects.lark import Lark
from localspec.formats.dialects.parts import BLANKS, Parts
from localspec.formats.dialects.segments import marks
from localspec.formats.dialects.text_stream import Reading, TextStream
from localspec.formats.thought.form import Place

BLANK_BYTES = BLANKS.encode()
MAX_REACH = 512  # bytes of the end of a text in which a mark may have begun
OVER = Place(over=True)


@dataclass(frozen=True, slots=True)
class Thought:
    """The marks of reasoning."""

    open: str
    close: str
    end: str = ""  # the closing mark with the blanks around it, where these are known

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for text in (self.open, self.close) for mark in marks(text) or [text])

    def opened_by(self, prompt_end: str) -> bool:
        return prompt_end.rstrip().endswith(self.open)

    def read(
        self, stream: TextStream, parts: Parts, prompt_end: str, breaks: Sequence[str] = ()
    ) -> Reading[None]:
        """Read reasoning if the reply begins with it; what breaks it off stays unread."""
        stream.begin()
        if not self.opened_by(prompt_end):
            yield from stream.blank()
            mark = yield from stream.starts(self.open, self.close)
            if mark != self.open:
                if mark:  # of reasoning that was none
                    stream.begin()
                return
        parts.think("")
        mark = yield from stream.until((self.close, *breaks), parts.think)
        if mark in breaks:
            stream.back(mark)
        stream.begin()

    def form(self, prompt_end: str, calls: Sequence[str], breaks: Sequence[str]) -> FirstThought:
        """Return the form by which tokens are followed as `read` reads them.

        `calls` are the marks of calls, which may take the place of a thought that a prompt opens.
        """
        return FirstThought(
            self.open.encode(),
            tuple(mark.encode() for mark in (self.close, *breaks)),
            tuple(mark.encode() for mark in calls),
            Place(thinks=self.opened_by(prompt_end), begins=True),
        )

    def opening(self, lark: Lark) -> str:
        """An expression for how a reply begins to reason."""
        return lark.after_blanks(self.open)


@dataclass(frozen=True, slots=True)
class FirstThought:
    """Follows the one thought of a reply, which begins with it."""

    open: bytes
    ends: tuple[bytes, ...]
    calls: tuple[bytes, ...]
    start: Place

    def read(self, place: Place, piece: bytes) -> Place:
        text = place.tail + piece
        if place.begins:
            text = text.lstrip(BLANK_BYTES)
            first = self.calls if place.thinks else (self.open,)
            if any(len(text) < len(mark) and mark.startswith(text) for mark in first):
                return place._replace(tail=text)
            if text.startswith(first) == place.thinks:
                return OVER
            text = text if place.thinks else text[len(self.open) :]
        elif not place.thinks:
            return OVER
        if any(mark in text for mark in self.ends):
            return OVER
        return Place(thinks=True, tail=text[-MAX_REACH:], held=self._held(text))

    def _held(self, text: bytes) -> int:
        """Count the last bytes that may be the beginning of an end."""
        most = min(len(text), max(map(len, self.ends)) - 1)
        lengths = (
            length
            for length in range(most, 0, -1)
            if any(mark.startswith(text[-length:]) for mark in self.ends)
        )
        return next(lengths, 0)

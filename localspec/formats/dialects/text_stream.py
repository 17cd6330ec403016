"""A text that is still growing, read as if it were all there.

A reader is a generator. It stops where it needs more text, and goes on once there is more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from localspec.formats.dialects.scanner import BLANK, Scanner

T = TypeVar("T")
Reading = Generator[None, None, T]


class TextStream:
    """Holds no more unread text than the longest mark, and what was read since `begin`."""

    def __init__(self) -> None:
        self._ended = False
        self._text = ""
        self._at = 0
        self._written: list[str] = []

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + text
        self._at = 0

    def end(self) -> None:
        self._ended = True

    def begin(self, written: str = "") -> None:
        """Forget what was read before."""
        self._written = [written]

    def written(self) -> str:
        """Return what was read since the last time, as it was written."""
        written = "".join(self._written)
        self._written.clear()
        return written

    def ahead(self) -> Reading[str]:
        """Return the next character without reading it; nothing at the end."""
        while self._at == len(self._text) and not self._ended:
            yield
        return self._text[self._at : self._at + 1]

    def starts(self, *marks: str) -> Reading[str]:
        """Read one of these, if it comes next; no mark begins another."""
        while True:
            if at_mark := next((m for m in marks if self._text.startswith(m, self._at)), ""):
                return self._read(self._at + len(at_mark))
            ahead = self._text[self._at : self._at + max(map(len, marks))]
            if self._ended or not any(mark.startswith(ahead) for mark in marks):
                return ""
            yield

    def run(self, pattern: re.Pattern[str]) -> Reading[str]:
        """Read on while letters match a pattern of letters, repeated."""
        pieces: list[str] = []
        while (yield from self.ahead()) and (match := pattern.match(self._text, self._at)):
            pieces.append(self._read(match.end()))
        return "".join(pieces)

    def back(self, text: str) -> None:
        """Put back this text, which was read last and in one piece."""
        self._at -= len(text)
        self._written.pop()

    def blank(self) -> Reading[str]:
        return self.run(BLANK)

    def until(self, marks: Sequence[str], say: Callable[[str], None]) -> Reading[str]:
        """Pass text on up to one of these marks; return it, or nothing at the end."""
        pattern = re.compile("|".join(map(re.escape, marks)) or r"(?!)")
        while (yield from self.ahead()):
            match = pattern.search(self._text, self._at)
            sure = match.start() if match else self._safe(marks)
            if sure > self._at:
                say(self._read(sure))
            if match:
                return self._read(match.end())
            if sure < len(self._text):
                yield
        return ""

    def value(self, scanner: Scanner, say: Callable[[str], None]) -> Reading[bool]:
        """Pass one value on as JSON; return whether it was whole."""
        while not (scanner.whole or scanner.broken):
            if (yield from self.ahead()):
                self._read(scanner.scan(self._text, self._at))
            else:
                scanner.end()
                scanner.broken = not scanner.whole
            say(scanner.take())
        return scanner.whole

    def _read(self, end: int) -> str:
        text = self._text[self._at : end]
        self._at = end
        self._written.append(text)
        return text

    def _safe(self, marks: Sequence[str]) -> int:
        """Find the earliest beginning of a mark at the end of the text."""
        size = len(self._text)
        if self._ended or not marks:
            return size
        firsts = {mark[0] for mark in marks}
        for at in range(max(self._at, size - max(map(len, marks)) + 1), size):
            if self._text[at] in firsts and any(m.startswith(self._text[at:]) for m in marks):
                return at
        return size

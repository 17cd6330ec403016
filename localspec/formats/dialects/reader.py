"""A reply as it streams in, read for reasoning, content and calls."""

from __future__ import annotations

from typing import Protocol

from localspec.formats.dialects.parts import Part, Parts
from localspec.formats.dialects.text_stream import Reading, TextStream


class ReplyReader(Protocol):
    """Takes a reply apart while it comes."""

    def read(self, text: str) -> list[Part]: ...

    def close(self) -> list[Part]: ...


class Reader:
    """Reads one reply; what comes out does not depend on how its text was cut."""

    def __init__(self, stream: TextStream, parts: Parts, reading: Reading[None]) -> None:
        self._stream = stream
        self._parts = parts
        self._reading = reading

    @property
    def complete(self) -> bool:
        """Whether every call has all of its arguments; only the last one may lack some."""
        return self._parts.complete

    def read(self, text: str) -> list[Part]:
        """Take in more of the reply; return what became sure."""
        self._stream.feed(text)
        next(self._reading, None)
        return self._parts.take()

    def close(self) -> list[Part]:
        """Return what was held back: nothing more is coming."""
        self._stream.end()
        for _ in self._reading:
            pass
        self._parts.close()
        return self._parts.take()

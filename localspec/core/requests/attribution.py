"""Attributes the characters of a reply to the target or to a proposer."""

from __future__ import annotations

from collections import deque

from localspec.core.requests.figures import TARGET
from localspec.core.requests.job import Chunk

Span = tuple[int, str]  # characters, and their proposer or the target


class Trail:
    """Follows the chunks of a reply, then attributes the texts parsed from it, in order."""

    def __init__(self) -> None:
        self._text = ""  # that was not attributed yet
        self._spans: deque[Span] = deque()  # of that text, and of what is held back after it

    def note(self, chunk: Chunk) -> None:
        self._text += chunk.text
        for at, length in enumerate(chunk.lengths):
            if length:
                self._spans.append((length, chunk.by if at < chunk.accepted else TARGET))

    def attribute(self, text: str) -> list[Span]:
        """Attribute a text; the parser left out whatever stands before it in the reply."""
        at = self._text.find(text)
        if at < 0:  # the parser changed it
            return [(len(text), TARGET)]
        self._take(at)
        return self._take(len(text))

    def _take(self, count: int) -> list[Span]:
        self._text = self._text[count:]
        spans: list[Span] = []
        while count and self._spans:
            length, by = self._spans.popleft()
            if length > count:
                self._spans.appendleft((length - count, by))
            spans.append((min(length, count), by))
            count -= spans[-1][0]
        return spans

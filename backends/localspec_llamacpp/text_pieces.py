"""Pieces of a text whose tokens, one piece after the other, are those of the whole text.

llama.cpp looks for every special token in a text before it tokenises what lies between them. It
walks a list of all that it found so far for each further one: 20,000 messages took two minutes. In
pieces of some KiB that is nothing. A piece may end only where the whole text is parted too: in
front of a special token that llama.cpp is sure to find there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PIECE_BYTES = 4096
PREFIX = 2  # bytes by which special tokens are looked for
BLANKS = b" \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """The text of a token that llama.cpp finds before all others."""

    text: bytes
    strips_left: bool = False  # blanks before it
    strips_right: bool = False  # blanks after it

    @property
    def strips(self) -> bool:
        return self.strips_left or self.strips_right


class TextPieces:
    """Parts texts in front of special tokens. Longer special tokens are found first."""

    def __init__(self, special: Iterable[SpecialToken], piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        self._tokens = {token.text: token for token in special if token.text}
        self._lengths = sorted({len(text) for text in self._tokens}, reverse=True)
        self._stripping = any(token.strips for token in self._tokens.values())
        runs = sorted((text for text in self._tokens if len({*text}) == 1), key=len)
        self._runs = {text[:1]: len(text) for text in runs}  # the longest of each byte
        starts = sorted({text[:PREFIX] for text in self._tokens}, reverse=True)
        self._start = re.compile(b"|".join(map(re.escape, starts))) if starts else None

    def of(self, text: bytes) -> Iterator[bytes]:
        begin = 0
        for end in self._borders(text):
            yield text[begin:end]
            begin = end
        if begin < len(text):
            yield text[begin:]

    def _borders(self, text: bytes) -> Iterator[int]:
        """Yield where pieces end, each some KiB after the one before."""
        begin, at = 0, self._piece_bytes
        while self._start and at < len(text):
            # Searched in windows: one search of the whole rest would not let other threads run.
            window = at + self._piece_bytes
            matches = self._start.finditer(text, at, window + PREFIX - 1)
            border = self._in_run(text, begin, at) or next(
                (match.start() for match in matches if self._parts(text, match.start())), 0
            )
            if border:
                yield border
                begin = border
            at = border + self._piece_bytes if border else window

    def _in_run(self, text: bytes, begin: int, at: int) -> int:
        """Find a border in a long run of one byte, which its longest special token parts evenly.

        0: there is none. The piece begins at a border.
        """
        byte = text[at : at + 1]
        size = self._runs.get(byte, 0)
        if not size or (self._stripping and byte in BLANKS):
            return 0
        start = begin + len(text[begin:at].rstrip(byte))
        border = start + -(-(at - start) // size) * size
        # What begins in the run and is no run ends after it, so begins far after the border.
        end = border + size + self._lengths[0]
        whole = text[at:end] == byte * (end - at)
        return border if whole and not (start > begin and self._is_within(text, start)) else 0

    def _parts(self, text: bytes, at: int) -> bool:
        """Return whether a special token is sure to be found here, whatever stands around it."""
        length = next((size for size in self._lengths if text[at : at + size] in self._tokens), 0)
        if not length or self._may_be_stripped(text[at : at + length]):
            return False
        is_preceded = any(
            text[start : start + size] in self._tokens
            for size in self._lengths
            if size >= length
            for start in range(at + 1, at + length)
        )
        return not is_preceded and not self._is_within(text, at)

    def _is_within(self, text: bytes, at: int) -> bool:
        """Return whether a special token begins before a place and ends after it."""
        return any(
            text[start : start + size] in self._tokens
            for size in self._lengths
            for start in range(max(at - size + 1, 0), at)
        )

    def _may_be_stripped(self, special: bytes) -> bool:
        """Return whether blanks at its ends, or before it, are taken by a special token."""
        blank = special.strip(BLANKS) != special
        return self._tokens[special].strips_left or (self._stripping and blank)

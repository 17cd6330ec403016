"""The lines of a reply that stay within a block."""

from __future__ import annotations

import re

PIECES = re.compile(r"\s+|\S+")


class IndentedBlock:
    """Passes on the lines of a text until one is indented by less; the first is free."""

    def __init__(self, indent: int) -> None:
        self._indent = indent
        self._blank = ""  # held back until it is known what follows
        self.left = False

    def take(self, text: str) -> str:
        """Take text; return the part that certainly belongs to the block."""
        if not self._indent:
            return text
        kept: list[str] = []
        for piece in PIECES.findall(text):
            if piece.isspace():
                self._blank += piece
                continue
            _, newline, indentation = self._blank.rpartition("\n")
            if newline and len(indentation) < self._indent:
                self.left = True
            if self.left:
                break
            kept += [self._blank, piece]
            self._blank = ""
        return "".join(kept)

    def remaining_blanks(self) -> str:
        """Return the blanks at its end, once no more is coming."""
        return "" if self.left else self._blank

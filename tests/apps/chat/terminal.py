"""A terminal to draw on, which remembers what it scrolled away."""

from __future__ import annotations

import io
import unicodedata

import pyte
from pyte.modes import LNM
from wcwidth import wcwidth


class Scrolling(pyte.Screen):
    """Keeps the lines that leave it above; quicker than pyte's own, which can go back to them."""

    def __init__(self, columns: int, rows: int) -> None:
        self.above: list[str] = []
        super().__init__(columns, rows)

    def index(self) -> None:
        if self.cursor.y == self.lines - 1:
            self.above.append(self.row(0))
        super().index()

    def row(self, at: int) -> str:
        line = self.buffer[at]
        return "".join(line[column].data for column in range(self.columns)).rstrip()


class Terminal(io.StringIO):
    """Knows no characters without a width but those that combine; the others are left out."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        super().__init__()
        self.screen = Scrolling(columns, rows)
        self.screen.set_mode(LNM)  # what a driver does with the end of a line
        self._stream = pyte.Stream(self.screen)

    @property
    def size(self) -> tuple[int, int]:
        return self.screen.columns, self.screen.lines

    def write(self, text: str) -> int:
        self._stream.feed("".join(filter(known, text)))
        return super().write(text)

    def resize(self, columns: int, rows: int) -> None:
        """Cut lines that are too long, and scroll as far as the line of the cursor asks for."""
        screen = self.screen
        over = max(screen.cursor.y - rows + 1, 0)
        screen.above += [screen.row(at) for at in range(over)]
        kept = {at - over: screen.buffer[at] for at in range(over, screen.lines)}
        screen.buffer.clear()
        screen.buffer.update({at: line for at, line in kept.items() if at < rows})
        screen.cursor.y -= over
        screen.lines = rows
        screen.resize(rows, columns)

    @property
    def text(self) -> list[str]:
        """All lines, those scrolled away first, without the empty ones at the end."""
        screen = self.screen
        lines = [*screen.above, *(screen.row(at) for at in range(screen.lines))]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def known(character: str) -> bool:
    return wcwidth(character) != 0 or bool(unicodedata.combining(character))

"""The last lines of a terminal, which may still change; what is above them stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import IO

from rich.cells import cell_len

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know these show all between at once
BELOW = "\x1b[J"  # wipes from the cursor on
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Size = Callable[[], tuple[int, int]]  # columns and rows


class Canvas:
    """Draws lines, of which the open ones may be drawn anew; the cursor stays behind the last.

    What the terminal has scrolled away cannot be reached, and stays as it was drawn.
    """

    def __init__(self, out: IO[str], size: Size) -> None:
        self._out = out
        self._size = size
        self._columns, _ = size()
        self._open: list[str] = []  # on the terminal, where the cursor can go
        self._gone: list[str] = []  # open lines before those, scrolled away

    def draw(self, settled: Sequence[str], open_: Sequence[str] = ()) -> None:
        """Put these in the place of the open lines; the settled ones are not drawn again."""
        columns, rows = self._size()
        self._scroll(rows)
        lines = [*settled, *open_]
        past = self._past(lines, columns)
        text = self._changes(lines[past:], columns)
        if settled and not open_:
            text += "\n"
        if text:
            self._out.write(f"{BEGIN}{text}{END}")
            self._out.flush()
        self._columns = columns
        self._gone = list(open_[: max(past - len(settled), 0)])
        self._open = list(open_[len(self._gone) :])
        self._scroll(rows)

    def _scroll(self, rows: int) -> None:
        count = max(len(self._open) - max(rows - 1, 1), 0)
        self._gone += self._open[:count]
        del self._open[:count]

    def _past(self, lines: Sequence[str], columns: int) -> int:
        """How many of the lines stand where the cursor cannot go."""
        if columns == self._columns:
            return min(len(self._gone), len(lines))
        left, count = sum(map(width, self._gone)), 0  # in other lines than they were drawn in
        while count < len(lines) and left > 0:
            left -= max(width(lines[count]), 1)
            count += 1
        return count

    def _changes(self, lines: Sequence[str], columns: int) -> str:
        """What to write to turn the open lines into these."""
        old = self._open
        if columns != self._columns:  # terminals have put them in other lines meanwhile
            height = sum(-(-max(width(line), 1) // columns) for line in old)
            return f"{up(height - 1)}{BELOW}" + "\n".join(lines) if old else "\n".join(lines)
        same = 0
        while same < min(len(old), len(lines)) and old[same] == lines[same]:
            same += 1
        if same == len(old):
            rest = "\n".join(lines[same:])
            return f"\n{rest}" if old and lines[same:] else rest
        if same == len(old) - 1 and same < len(lines) and lines[same].startswith(old[same]):
            return "\n".join((lines[same][len(old[same]) :], *lines[same + 1 :]))
        if same == len(lines):  # nothing but lines to wipe
            return f"{up(len(old) - 1 - same)}{BELOW}" + (f"\x1b[A{end(lines)}" if lines else "")
        return f"{up(len(old) - 1 - same)}{BELOW}" + "\n".join(lines[same:])


def up(count: int) -> str:
    """To the beginning of a line so many above."""
    return f"\r\x1b[{count}A" if count > 0 else "\r"


def end(lines: Sequence[str]) -> str:
    count = width(lines[-1])
    return f"\x1b[{count}C" if count else ""


def width(line: str) -> int:
    return cell_len(CODES.sub("", line))

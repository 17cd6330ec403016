"""The last lines of a terminal, which may still change; those above them stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TextIO

from localspec.apps.chat.terminal.ink import bare, writable

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # terminals that know these show all between at once
REST, BELOW = "\x1b[K", "\x1b[J"  # wipe what follows on the line, and below it too
Size = Callable[[], tuple[int, int]]  # columns and rows


class Canvas:
    """Draws lines, of which the open ones may be drawn anew; the cursor stays after the last.

    Lines that the terminal has scrolled away cannot be reached, and stay as they were drawn.
    """

    def __init__(self, out: TextIO, size: Size) -> None:
        self._out = out
        self._size = size
        self._columns, _ = size()
        self._open: list[str] = []  # on the terminal, where the cursor can go
        self._gone: list[str] = []  # open lines before those, scrolled away

    def draw(self, settled: Sequence[str], open_: Sequence[str] = ()) -> None:
        """Replace the open lines; settled ones are not drawn again."""
        columns, rows = self._size()
        self._scroll(rows)
        lines = [*settled, *open_]
        past = self._past(lines)
        text = self._changes(lines[past:], anew=columns != self._columns)
        if settled and not open_:
            text += "\n"
        if text:
            self._out.write(writable(f"{BEGIN}{text}{END}", self._out))
            self._out.flush()
        self._columns = columns
        self._gone = list(open_[: max(past - len(settled), 0)])
        self._open = list(open_[len(self._gone) :])
        self._scroll(rows)

    def _scroll(self, rows: int) -> None:
        count = max(len(self._open) - max(rows, 1), 0)
        self._gone += self._open[:count]
        del self._open[:count]

    def _past(self, lines: Sequence[str]) -> int:
        """Count the lines above the cursor's reach, rather one less than too many."""
        if lines[: len(self._gone)] == self._gone:
            return len(self._gone)
        left, past = letters("".join(self._gone)), 0  # which are in other lines now
        for at, line in enumerate(lines[:-1], start=1):
            needed = letters(line)
            if not needed <= left:
                break
            left -= needed
            past = at if needed else past
        return past

    def _changes(self, lines: Sequence[str], *, anew: bool) -> str:
        """Compute the output that turns the open lines into these.

        A narrower terminal may have put each of them in several rows, or not. Moving up by as many
        rows as there were lines never reaches the settled lines.
        """
        old = self._open
        if lines == old and not anew:
            return ""
        same = 0
        while not anew and same < min(len(old), len(lines)) and old[same] == lines[same]:
            same += 1
        # The last line always, for what was typed may stand after it.
        start = max(min(same, len(old) - 1, len(lines) - 1), 0)
        return up(len(old) - 1 - start) + f"{REST}\n".join(lines[start:]) + BELOW


def up(count: int) -> str:
    """Move to the beginning of a line so many above."""
    return f"\r\x1b[{count}A" if count > 0 else "\r"


def letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, bare(text)))

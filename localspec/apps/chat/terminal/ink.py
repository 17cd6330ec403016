"""Styled text as lines of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.cells import get_character_cell_size

Run = tuple[str, str]  # a text, and its style: what stands between `ESC [` and `m`

TAB = " " * 4
REPLACED = "�"
SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
# C1 controls; what separates lines or turns the direction of others; halves of characters.
UNSHOWN = ((0x80, 0x9F), (0x2028, 0x202E), (0x2066, 0x2069), (0xD800, 0xDFFF))
SIGNS |= {code: ord(REPLACED) for first, last in UNSHOWN for code in range(first, last + 1)}

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"^(3|4|9|10)[0-7]$")
# Between these a line may end; what closes or ends a sentence stays with the one before it.
WIDE = "\u2e80-\u3000\u3003-\u3007\u3012-\ua4cf\uf900-\ufaff\U00020000-\U0003fffd"
CLOSING = "、。，．！？：；）］｝」』】〉》…”’"  # noqa: RUF001
ATOM = re.compile(f"\n| +|[{WIDE}][{CLOSING}]*|[^\n {WIDE}]+")


def visible(text: str) -> str:
    """Replace characters that a terminal would obey with visible signs."""
    return text.translate(SIGNS)


def split_shown(text: str) -> tuple[str, str]:
    """Split off a last carriage return, which is kept until it is known whether it ends a line."""
    half = "\r" if text.endswith("\r") else ""
    return visible(text.removesuffix(half).replace("\r\n", "\n")), half


def writable(text: str, out: TextIO) -> str:
    """Replace what cannot be written in a stream's encoding."""
    encoding = out.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def bare(line: str) -> str:
    """Remove the styles that `Ink` wrote."""
    return CODES.sub("", line)


def cells(text: str) -> int:
    """Count the most cells that a text takes, where a terminal joins no characters."""
    return len(text) if text.isascii() else sum(map(get_character_cell_size, text))


def fitting(text: str, width: int) -> int:
    """Count the characters that there is room for."""
    for at, character in enumerate(text):
        width -= get_character_cell_size(character)
        if width < 0:
            return at
    return len(text)


class Ink:
    """Writes styles as a terminal understands them; without colours, the rest of them."""

    def __init__(self, *, colours: bool) -> None:
        self.colours = colours

    def paint(self, text: str, style: str) -> str:
        if not self.colours:
            style = ";".join(code for code in style.split(";") if not COLOUR.match(code))
        return f"\x1b[{style}m{text}\x1b[0m" if style and text.strip() else text

    def lines(self, runs: Iterable[Run], width: int, *, words: bool = True) -> list[str]:
        """Wrap text at the width, at spaces if there are any."""
        page = Page(max(width, 2))
        for text, style in runs:
            text = text.replace("\t", TAB)
            if words:
                for atom in ATOM.findall(text):
                    page.put(atom, style)
            else:
                page.fill(text, style)
        page.flush()
        return ["".join(self.paint(*run) for run in join_runs(line)) for line in page.lines]


class Page:
    def __init__(self, width: int) -> None:
        self.lines: list[list[Run]] = [[]]
        self._width = width
        self._used = 0  # cells of the last line
        self._gap: list[Run] = []  # spaces after that, left out if the line ends there
        self._word: list[Run] = []  # that is not complete

    def put(self, atom: str, style: str) -> None:
        if atom == "\n":
            self.flush()
            self._end()
        elif atom[0] == " ":
            self.flush()
            self._gap.append((atom, style))
        elif atom.isascii() or cells(atom[0]) < 2:
            self._word.append((atom, style))
        else:  # which may stand on a line of its own
            self.flush()
            self._word.append((atom, style))
            self.flush()

    def flush(self) -> None:
        """Put the word on this line, or on the next if there is no room for it."""
        if not self._word:
            return
        if self._used + size(self._word) + size(self._gap) > self._width:
            if self._used:
                self._end()
            self._gap = []
        for run in (*self._gap, *self._word):
            self.fill(*run)
        self._word, self._gap = [], []

    def fill(self, text: str, style: str) -> None:
        """Put text without line ends on this line and the next ones, broken where one is full."""
        while self._used + cells(text) > self._width:
            count = fitting(text, self._width - self._used)
            self.lines[-1].append((text[:count], style))
            self._end()
            text = text[count:]
        self.lines[-1].append((text, style))
        self._used += cells(text)

    def _end(self) -> None:
        self.lines.append([])
        self._used, self._gap = 0, []


def size(runs: Iterable[Run]) -> int:
    return sum(cells(text) for text, _ in runs)


def join_runs(runs: Iterable[Run]) -> Iterator[Run]:
    """Join neighbours of one style."""
    text, style = "", ""
    for more, other in runs:
        if other != style:
            yield text, style
            text, style = "", other
        text += more
    yield text, style

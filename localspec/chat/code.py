"""Code in colours, as lines of a terminal."""

from __future__ import annotations

from functools import lru_cache

from pygments import lex
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound
from rich.cells import cell_len, get_character_cell_size

TAB = 4
# The terminal's own colours; the bright ones are hard to see on a light ground.
STYLES: dict[_TokenType, str] = {
    Comment: "2;3",
    Generic.Deleted: "31",
    Generic.Heading: "1",
    Generic.Inserted: "32",
    Keyword: "35",
    Name.Builtin: "36",
    Name.Class: "1;34",
    Name.Decorator: "36",
    Name.Function: "34",
    Name.Tag: "34",
    Number: "33",
    Operator.Word: "35",
    String: "32",
}


def highlighted(source: str, language: str, width: int, *, colours: bool) -> list[list[str]]:
    """Of each line of the source, the lines that it takes on a terminal."""
    page = Page(width)
    for kind, text in lex(source.removesuffix("\n").expandtabs(TAB), lexer(language)):
        style = style_of(kind) if colours else ""
        first, *others = text.split("\n")
        page.write(first, style)
        for line in others:
            page.lines.append([""])
            page.write(line, style)
    return page.lines


class Page:
    """Breaks lines where they reach the width, so that a terminal never has to."""

    def __init__(self, width: int) -> None:
        self.lines: list[list[str]] = [[""]]
        self._width = max(width, 2)
        self._used = 0  # cells of the line that is written on

    def write(self, text: str, style: str) -> None:
        line = self.lines[-1]
        self._used = self._used if line[-1] else 0
        while self._used + cell_len(text) > self._width:
            count = self._fitting(text)
            line[-1] += styled(text[:count], style)
            line.append("")
            text, self._used = text[count:], 0
        line[-1] += styled(text, style)
        self._used += cell_len(text)

    def _fitting(self, text: str) -> int:
        """How many characters there is room for."""
        used = self._used
        for at, character in enumerate(text):
            used += get_character_cell_size(character)
            if used > self._width:
                return at
        return len(text)


def styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style and text.strip() else text


@lru_cache(64)
def style_of(kind: _TokenType) -> str:
    while kind not in STYLES and kind.parent is not None:
        kind = kind.parent
    return STYLES.get(kind, "")


@lru_cache(32)
def lexer(language: str) -> Lexer:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return TextLexer(stripnl=False, ensurenl=False)

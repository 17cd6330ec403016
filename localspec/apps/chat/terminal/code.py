"""Syntax highlighting of code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from pygments import lex
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound

from localspec.apps.chat.terminal.ink import TAB, Run

PART = 32  # lines; those of a part are looked at but once
CLOSING = (" ", "\t", "\n", "}", ")", "]")  # lines that begin so go on with what is above them
# The terminal's own colours; the bright ones are hard to see on a light ground.
STYLES: dict[_TokenType, str] = {
    Comment: "2;3",
    Comment.Preproc: "36",
    Generic.Deleted: "31",
    Generic.Heading: "1",
    Generic.Inserted: "32",
    Generic.Subheading: "36",
    Keyword: "35",
    Name.Attribute: "36",
    Name.Builtin: "36",
    Name.Class: "1;34",
    Name.Decorator: "36",
    Name.Function: "34",
    Name.Tag: "34",
    Name.Variable: "36",
    Number: "33",
    Operator.Word: "35",
    String: "32",
}
Line = tuple[Run, ...]


def parts(source: str, language: str) -> Iterator[list[Line]]:
    """Yield lines of code in parts; colours of a part do not depend on what follows it."""
    lines = split(source)
    while True:
        count, highlighted = part(lines, language)
        yield highlighted[:count]
        lines = lines[count:]
        if not lines:
            return


def split(source: str) -> list[str]:
    return [f"{line}\n" for line in source.removesuffix("\n").expandtabs(len(TAB)).split("\n")]


def part(lines: list[str], language: str) -> tuple[int, list[Line]]:
    """Take so many lines that the rest can be lexed without them."""
    size = PART
    while size < len(lines):
        highlighted = lex_lines("".join(lines[:size]), language)
        ends = [at for at in range(1, size) if highlighted[at - 1][1]]
        good = [at for at in ends if not lines[at].startswith(CLOSING)]
        if ends:
            return (good or ends)[-1], [line for line, _ in highlighted]
        size *= 2
    return len(lines), [line for line, _ in lex_lines("".join(lines), language)]


@lru_cache(64)
def lex_lines(source: str, language: str) -> list[tuple[Line, bool]]:
    """Lex lines, each with whether nothing is open at its end, e.g. a comment."""
    lines: list[tuple[Line, bool]] = []
    line: list[Run] = []
    for kind, text in lex(source, lexer(language)):
        first, *others = text.split("\n")
        line.append((first, style_of(kind)))
        for following in others:
            lines.append((tuple(line), not {String, Comment} & {*kind.split()}))
            line = [(following, style_of(kind))]
    return lines


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

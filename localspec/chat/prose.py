"""Markdown as it streams in: whole blocks are settled, only the last is drawn again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown

from localspec.chat.code import highlighted, styled
from localspec.chat.ink import Ink, visible

# Without raw HTML, which would not be shown at all.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
LONG = 48  # lines of code that are drawn again; of a longer block the first half are settled
FAINT = "2"


class Prose:
    """Takes in text and gives lines: those that are settled once, the open ones each time."""

    def __init__(self, ink: Ink) -> None:
        self._ink = ink
        self._source = ""  # of the open block
        self._below = False  # whether something is settled above it
        self._within = False  # whether the beginning of its own code is

    def add(self, text: str) -> None:
        self._source += visible(text)

    def lines(self, width: int, *, final: bool = False) -> tuple[list[str], list[str]]:
        found = list(blocks(self._source))
        last = found.pop() if found and not final else None
        settled: list[str] = []
        for block in found:
            settled += self._drawn(block, width, whole=True)
            self._below, self._within = True, False
        source = self._source.splitlines(keepends=True)
        self._source = "".join(source[last.line :]) if last else ""
        if last is None:
            return settled, []
        if last.code and last.code.content.count("\n") > LONG:
            settled += self._settle(last, last.code, width)
            [last] = blocks(self._source)
        return settled, self._drawn(last, width, whole=False)

    def _drawn(self, block: Block, width: int, *, whole: bool) -> list[str]:
        if block.code is None:
            return [*self._gap, *self._ink.lines(block.markdown(), width)]
        lines = [line for each in self._code(block.code, width) for line in each]
        end = [self._faint(block.code.markup)] if whole else []
        return [*self._fence(block.code, width), *lines, *end]

    def _settle(self, block: Block, code: Token, width: int) -> list[str]:
        """Half of a long block of code; the rest is a block of its own from now on."""
        half = LONG // 2
        fence, *rest = self._source.splitlines(keepends=True)
        lines = [line for each in self._code(code, width)[:half] for line in each]
        settled = [*self._fence(code, width), *lines]
        self._source = fence + "".join(rest[half:])
        self._within = True
        return settled

    def _code(self, code: Token, width: int) -> list[list[str]]:
        language = code.info.split()[0] if code.info.strip() else ""
        return highlighted(code.content, language, width, colours=self._ink.colours)

    def _fence(self, code: Token, width: int) -> list[str]:
        if self._within:
            return []
        return [*self._gap, self._faint(f"{code.markup}{code.info}"[:width])]

    @property
    def _gap(self) -> list[str]:
        return [""] if self._below else []

    def _faint(self, text: str) -> str:
        return styled(text, FAINT)


@dataclass(frozen=True, slots=True)
class Block:
    tokens: Sequence[Token]
    line: int  # of the source, where it begins

    @property
    def code(self) -> Token | None:
        [first, *_] = self.tokens
        return first if first.type == "fence" else None

    def markdown(self) -> Markdown:
        shown = Left("", hyperlinks=False, code_theme="ansi_dark")
        shown.parsed = list(self.tokens)
        return shown


def blocks(source: str) -> Iterator[Block]:
    """The outermost blocks of a text."""
    begun: list[Token] = []
    depth = 0
    for token in MARKDOWN.parse(source):
        begun.append(token)
        depth += token.nesting
        if depth == 0:
            [line, _] = begun[0].map or [0, 0]
            yield Block(begun, line)
            begun = []


class LeftHeading(Heading):
    """Where a reader looks for it; not in the middle, as the library has it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class Left(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": LeftHeading}

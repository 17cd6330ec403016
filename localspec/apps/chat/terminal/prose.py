"""Markdown as it streams in: whole blocks are settled, only the last is drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localspec.apps.chat.terminal import code
from localspec.apps.chat.terminal.ink import Ink, split_shown, visible
from localspec.apps.chat.terminal.markdown import (
    Begun,
    MarkdownBlock,
    Node,
    Sheet,
    blocks,
    language,
)
from localspec.apps.chat.terminal.table import ROWS, draw


class Prose:
    """Takes in text and gives lines: settled ones once, open ones each time."""

    def __init__(self, ink: Ink) -> None:
        self._ink = ink
        self._source = ""  # of what is not settled
        self._half = ""  # of an end of line, that it may go on with
        self._whole = False  # whether a line was completed since it was looked at
        self._gap = False  # whether a line is left empty above it
        self._begun: Begun | None = None  # if the beginning of its first block is settled

    def add(self, text: str) -> None:
        text, self._half = split_shown(self._half + text)
        self._source += text
        self._whole = self._whole or "\n" in text

    def lines(self, width: int, *, final: bool = False) -> tuple[list[str], list[str]]:
        if final:
            self._source += visible(self._half)
            return self._draw(blocks(self._source), width), []
        settled = self._settle(width) if self._whole else []
        self._whole = False
        return settled, self._draw(blocks(self._source), width)

    def _draw(self, blocks: Sequence[MarkdownBlock], width: int) -> list[str]:
        sheet = self._sheet
        lines: list[str] = []
        for at, block in enumerate(blocks):
            if block.gap if at else self._gap:
                lines.append("")
            lines += sheet.lines(block.node, width, None if at else self._begun)
        return lines

    def _settle(self, width: int) -> list[str]:
        """Settle all but the last block; an incomplete line may yet belong to the one before."""
        complete = blocks(self._source[: self._source.rfind("\n") + 1])
        if not complete:
            return []
        last = complete.pop()
        if complete:
            settled = self._draw(complete, width)
            self._gap, self._begun = last.gap, None
            self._leave(0, last.line)
            return settled + self._settle(width)
        match last.node.token.type:
            case "fence":
                return self._settle_code(last.node, width)
            case "table_open":
                return self._settle_rows(last.node, width)
        return []

    def _settle_code(self, node: Node, width: int) -> list[str]:
        """Settle the complete parts of a long block of code."""
        sheet = self._sheet
        *above, _ = code.parts(node.token.content, language(node.token))
        if not above:
            return []
        lines = [] if self._begun else [*self._above, *sheet.fence(node.token, width)]
        lines += [line for part in above for line in sheet.code(part, width)]
        self._go_on(1, sum(map(len, above)), Begun())
        return lines

    def _settle_rows(self, node: Node, width: int) -> list[str]:
        """Settle all rows of a long table but the last."""
        table = self._sheet.table(node)
        if len(table.rows) <= ROWS:
            return []
        columns = self._begun.columns if self._begun else table.columns
        above = replace(table, rows=table.rows[:-1])
        lines = draw(above, self._ink, width, columns if self._begun else None)
        lines = [*self._above, *lines]
        self._go_on(2, len(above.rows), Begun(columns))
        return lines

    def _go_on(self, at: int, count: int, begun: Begun) -> None:
        """Drop so many lines below the first ones of a block, which name it."""
        self._leave(at, at + count)
        self._gap, self._begun = False, begun

    def _leave(self, first: int, last: int) -> None:
        source = self._source.split("\n")
        self._source = "\n".join(source[:first] + source[last:])

    @property
    def _above(self) -> list[str]:
        return [""] if self._gap else []

    @property
    def _sheet(self) -> Sheet:
        return Sheet(self._ink, self._source.split("\n"))

"""Markdown as lines of a terminal; everything in the source can be read there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token

from localspec.apps.chat.terminal import code
from localspec.apps.chat.terminal.ink import Ink, Run, bare
from localspec.apps.chat.terminal.table import MarkdownTable, draw

FAINT = "2"
INLINE_CODE = "36"
ADDRESS = "34"
STYLES = {"strong_open": "1", "em_open": "3", "s_open": "9", "link_open": ""}
HEADINGS = {"h1": "1;4", "h2": "1", "h3": "1;3"}
LOWER = "3"  # headings
MARKS = "*_`#|<>~+-.!\\"  # what a backslash is written for in Markdown; others may be meant so
NARROW = 8  # columns; where there are no more left, nothing is indented
CELL = re.compile(r"((?:[^|\\]|\\.?)*)(?:\||$)")
DEEPEST = 60  # levels; what lies deeper is shown as it was written


class Faithful(MarkdownIt):
    """A parser that keeps addresses as they were written, and shows HTML in place of hiding it."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": DEEPEST})
        self.enable(["table", "strikethrough"])
        self.disable(["reference", "entity", "autolink", "html_block", "html_inline", "text_join"])

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link


MARKDOWN = Faithful()


@dataclass(frozen=True, slots=True)
class Node:
    token: Token
    children: list[Node] = field(default_factory=list)

    @property
    def begins(self) -> int:
        return self.token.map[0] if self.token.map else 0


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A block: an item of a list, or anything else that stands on its own."""

    node: Node
    line: int  # of the source, where it begins
    gap: bool  # whether a line is left empty above it


@dataclass(frozen=True, slots=True)
class Begun:
    """A block whose beginning was shown before."""

    columns: Sequence[int] = ()  # of a table


def blocks(source: str) -> list[MarkdownBlock]:
    return list(_blocks(tree(MARKDOWN.parse(source)), source.split("\n")))


def _blocks(root: Node, source: Sequence[str]) -> Iterator[MarkdownBlock]:
    for node in root.children:
        if node.token.type in ("bullet_list_open", "ordered_list_open"):
            for at, item in enumerate(node.children):
                yield MarkdownBlock(item, item.begins, at == 0 or empty_above(item, source))
        else:
            yield MarkdownBlock(node, node.begins, gap=True)


def tree(tokens: Sequence[Token]) -> Node:
    nodes = [Node(Token("root", "", 1))]
    for token in tokens:
        if token.nesting < 0:
            nodes.pop()
            continue
        node = Node(token)
        nodes[-1].children.append(node)
        if token.nesting > 0:
            nodes.append(node)
    return nodes[0]


def empty_above(node: Node, source: Sequence[str]) -> bool:
    return node.begins > 0 and not source[node.begins - 1].strip(" \t>")


@dataclass(frozen=True, slots=True)
class Sheet:
    ink: Ink
    source: Sequence[str]  # lines

    def lines(self, node: Node, width: int, begun: Begun | None = None) -> list[str]:
        match node.token.type:
            case "paragraph_open":
                return self.ink.lines(self.inline(node), width)
            case "heading_open":
                return self.ink.lines(self._heading(node), width)
            case "fence":
                return self._fence(node.token, width, begun)
            case "code_block":
                return indent(self.listing(node.token, width - 4), "    ", "    ")
            case "hr":
                return [self.ink.paint("─" * width, FAINT)]
            case "table_open":
                return draw(self.table(node), self.ink, width, begun.columns if begun else None)
            case "blockquote_open":
                bar = self.ink.paint("│", FAINT) + " "
                return self._hung(node, bar, bar, width)
            case "list_item_open":
                return self._item(node, width)
            case _:
                return self._together(node, width)

    def _heading(self, node: Node) -> list[Run]:
        style = HEADINGS.get(node.token.tag, LOWER)
        return self.inline(node, style) or [(node.token.markup, style)]

    def _together(self, node: Node, width: int) -> list[str]:
        if node.token.level >= DEEPEST - 1:  # where the library stops, and would leave it out
            first, last = node.token.map or (0, 0)
            return self.ink.lines([("\n".join(self.source[first:last]), "")], width)
        lines: list[str] = []
        for at, child in enumerate(node.children):
            if at and empty_above(child, self.source):
                lines.append("")
            lines += self.lines(child, width)
        return lines

    def _item(self, node: Node, width: int) -> list[str]:
        mark = f"{node.token.info}{node.token.markup}" if node.token.info else "•"
        return self._hung(node, self.ink.paint(mark, "36") + " ", " " * (len(mark) + 1), width)

    def _hung(self, node: Node, first: str, others: str, width: int) -> list[str]:
        """Put lines after a mark, or below it where there is no room."""
        inner = width - len(bare(others))
        if inner < NARROW:
            mark = self.ink.lines([(bare(first), FAINT)], width)
            return [*mark, *self._together(node, width)]
        return indent(self._together(node, inner) or [""], first, others)

    def _fence(self, token: Token, width: int, begun: Begun | None) -> list[str]:
        first, last = token.map or (0, 0)
        closed = last - first - 1 > len(token.content.splitlines())
        return [
            *([] if begun else self.fence(token, width)),
            *(self.listing(token, width) if token.content else []),
            *(self.ink.lines([(token.markup, FAINT)], width) if closed else []),
        ]

    def fence(self, token: Token, width: int) -> list[str]:
        return self.ink.lines([(token.markup + token.info, FAINT)], width)

    def listing(self, token: Token, width: int) -> list[str]:
        parts = code.parts(token.content, language(token))
        return [line for part in parts for line in self.code(part, width)]

    def code(self, part: Sequence[code.Line], width: int) -> list[str]:
        return [row for line in part for row in self.ink.lines(line, width, words=False)]

    def table(self, node: Node) -> MarkdownTable:
        [heads], *bodies = ([self._row(row) for row in part.children] for part in node.children)
        sides = [
            str(cell.token.attrs.get("style", "")) for cell in node.children[0].children[0].children
        ]
        return MarkdownTable(heads, [row for body in bodies for row in body], sides)

    def _row(self, row: Node) -> list[list[Run]]:
        """Read a row; cells beyond the columns go into the last, where they would be dropped."""
        cells = [self.inline(cell, "1" if cell.token.tag == "th" else "") for cell in row.children]
        written = CELL.findall(self.source[row.begins].lstrip(" \t>").removeprefix("|"))
        more = "|".join(written[len(cells) :]).rstrip(" \t|")
        if more and row.children[0].token.tag == "td":
            cells[-1] = [*cells[-1], (f" |{more}", "")]
        return cells

    def inline(self, node: Node, base: str = "") -> list[Run]:
        """Read the text and styles of a line."""
        [content] = node.children
        runs: list[Run] = []
        styles, links = [base], list[tuple[Token, int]]()
        for token in content.token.children or ():
            if token.nesting < 0:
                styles.pop()
                if token.type == "link_close":
                    runs += self._address(*links.pop(), runs)
                continue
            if token.nesting > 0:
                styles.append(STYLES.get(token.type, ""))
                if token.type == "link_open":
                    links.append((token, len(runs)))
            else:
                runs.append((self._text(token), self._style(token, styles)))
        return [run for run in runs if run[0]]

    def _address(self, link: Token, at: int, runs: Sequence[Run]) -> list[Run]:
        address = target(link)
        if "".join(text for text, _ in runs[at:]) == address:
            return []
        return [(" (", ""), (address, ADDRESS), (")", "")]

    def _style(self, token: Token, styles: Sequence[str]) -> str:
        more = INLINE_CODE if token.type == "code_inline" else ""
        return ";".join(filter(None, (*styles, more)))

    def _text(self, token: Token) -> str:
        match token.type:
            case "softbreak" | "hardbreak":
                return "\n"
            case "code_inline":
                mark = "" if self.ink.colours else token.markup
                return f"{mark}{token.content}{mark}"
            case "image":
                return f"![{token.content}]({target(token)})"
            case "text_special":
                return token.content if token.content in MARKS else token.markup
            case _:
                return token.content


def indent(lines: Sequence[str], first: str, others: str) -> list[str]:
    return [((others if at else first) + line).rstrip(" ") for at, line in enumerate(lines)]


def target(link: Token) -> str:
    """The address of a link or an image, with its title."""
    address = str(link.attrs.get("href", link.attrs.get("src", "")))
    title = link.attrs.get("title")
    return f'{address} "{title}"' if title else address


def language(token: Token) -> str:
    return token.info.split()[0] if token.info.strip() else ""

"""From what is to be shown to the lines of a terminal, with its colours."""

from __future__ import annotations

import io
from typing import Literal, get_args

from rich.console import Console, RenderableType
from rich.theme import Theme

# The terminal's own colours, which its owner chose to be seen on either ground.
THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.block_quote": "italic",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.link_url": "underline",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)

ColorSystem = Literal["standard", "256", "truecolor", "windows"]
SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
SIGNS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def visible(text: str) -> str:
    """A text without anything that a terminal would obey; such characters show as signs."""
    return text.translate(SIGNS)


def known(system: str | None) -> ColorSystem:
    return next((each for each in get_args(ColorSystem) if each == system), "standard")


class Ink:
    """Renders as a terminal's console would, but to lines that somebody else draws."""

    def __init__(self, terminal: Console) -> None:
        self.colours = terminal.color_system is not None and not terminal.no_color
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system=known(terminal.color_system),
            no_color=not self.colours,
            theme=THEME,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def lines(self, what: RenderableType, width: int) -> list[str]:
        """Without empty ones at the beginning and the end."""
        with self._console.capture() as captured:
            self._console.print(what, width=max(width, 8))
        lines = [line.rstrip(" ") for line in captured.get().split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        return lines

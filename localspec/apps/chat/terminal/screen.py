"""The terminal: its abilities, and everything written to it but answers."""

from __future__ import annotations

import sys
from typing import TextIO, cast

from rich.console import Console, RenderableType
from rich.text import Text

from localspec.apps.chat.terminal.canvas import Canvas
from localspec.apps.chat.terminal.ink import Ink, visible
from localspec.apps.chat.terminal.view import DrawnView, TypedView, View
from localspec.console.speakers.speaker import Piece


class Screen:
    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, markup=False, emoji=False)
        console = self.console
        # A cursor that can go back; all else gets plain text.
        self.moves = (
            console.is_terminal and not console.is_dumb_terminal and not console.legacy_windows
        )

    @property
    def colours(self) -> bool:
        return self.moves and self.console.color_system is not None and not self.console.no_color

    def view(self, *, lens: bool) -> View:
        """Return a view to show an answer in: drawn anew as it grows, or typed where none can be.

        With `lens` tokens have the colour of the proposer that drafted them.
        """
        if not self.moves:
            return TypedView(sys.stdout)
        canvas = Canvas(
            cast(TextIO, self.console.file), lambda: (self.console.width, self.console.height)
        )
        ink = Ink(colours=self.colours)
        return DrawnView(canvas, ink, self._width, lens=lens and self.colours)

    def _width(self) -> int:
        return max(self.console.width - 1, 2)  # a full line would leave it to the terminal to break

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(visible(text), style))

    def faint(self, text: str) -> None:
        self.say(text, "dim")

    def notice(self, text: str) -> None:
        self.say(text, "yellow")

    def error(self, text: str) -> None:
        self.say(text, "red")

    def show(self, content: RenderableType) -> None:
        self.console.print(content)

    def markdown(self, text: str) -> None:
        """Show a complete text as an answer would be shown."""
        view = self.view(lens=False)
        view.add(Piece(text))
        view.close()

    def gap(self) -> None:
        self.console.print()

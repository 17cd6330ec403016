"""Text as it is, in colours that say who guessed it, or faint where it is but thought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from localspec.chat.ink import Ink, visible
from localspec.figures import TARGET
from localspec.trail import Span

THOUGHT = "dim italic"
TAB = 4
COLOURS = {
    TARGET: "",
    "draft-model": "green",
    "ngram": "yellow",
    "suffix": "cyan",
    "prediction": "magenta",
    "forced": "blue",
}
HEAD = "red"  # whoever else guesses: heads of the target, and plug-ins


class Coloured:
    """Takes in text and gives lines: all but its last line are settled."""

    def __init__(self, ink: Ink, style: str = "") -> None:
        self._ink = ink
        self._style = style
        self._text = Text()

    def add(self, text: str, said: Sequence[Span] = ()) -> None:
        at = 0
        for count, by in said:
            colour = COLOURS.get(by, HEAD)
            self._text.append(visible(text[at : at + count]), f"{self._style} {colour}".strip())
            at += count
        self._text.append(visible(text[at:]), self._style)

    def lines(self, width: int, *, final: bool = False) -> tuple[list[str], list[str]]:
        *whole, last = self._text.split("\n", allow_blank=True)
        settled = [line for text in whole for line in self._drawn(text, width)]
        if final:
            self._text = Text()
            return settled + (self._drawn(last, width) if last else []), []
        self._text = last
        return settled, self._drawn(last, width)

    def _drawn(self, text: Text, width: int) -> list[str]:
        text.expand_tabs(TAB)
        return self._ink.lines(text, width) or [""]


def legend(by_source: Mapping[str, int]) -> Text:
    """Which colour is whose."""
    shown = Text()
    for by in by_source:
        shown.append(f"■ {by}  ", COLOURS.get(by, HEAD))
    return shown

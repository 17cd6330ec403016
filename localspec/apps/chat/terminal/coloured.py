"""Plain text in the colours of its proposers; reasoning is faint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from localspec.apps.chat.terminal.ink import Ink, Run, split_shown, visible
from localspec.core.proposers.descriptions import SHORT
from localspec.core.requests.attribution import Span
from localspec.core.requests.figures import TARGET

THOUGHT = "2;3"
CODES = {"": "", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
CODES |= {"magenta": "35", "cyan": "36"}
COLOURS = {
    TARGET: "",
    "draft-model": "green",
    "ngram": "yellow",
    "suffix": "cyan",
    "corpus": "cyan",
    "prediction": "magenta",
    "forced": "blue",
}
NAMES = {TARGET: "the model", **SHORT}
HEAD = "red"  # other proposers: heads of the target, and plug-ins


class Coloured:
    """Takes in text and gives lines: all but its last line are settled."""

    def __init__(self, ink: Ink, style: str = "") -> None:
        self._ink = ink
        self._style = style
        self._runs: list[Run] = []  # of lines that are not settled
        self._empty = True  # so that lines left empty at the beginning are left out
        self._half = ""  # of an end of line, that it may go on with

    def add(self, text: str, spans: Sequence[Span] = ()) -> None:
        at = 0
        for count, by in spans:
            self._append(text[at : at + count], CODES[COLOURS.get(by, HEAD)])
            at += count
        self._append(text[at:], "")

    def _append(self, text: str, colour: str) -> None:
        text, self._half = split_shown(self._half + text)
        if self._empty:
            text = text.lstrip("\n")
        if text:
            self._empty = False
            self._runs.append((text, self._style or colour))

    def lines(self, width: int, *, final: bool = False) -> tuple[list[str], list[str]]:
        if final:
            self._runs.append((visible(self._half), self._style))
        whole, last = split_last_line(self._runs)
        if final:
            *drawn, end = self._ink.lines([*whole, *last], width)
            self._runs = []
            return (drawn if not end.strip() else [*drawn, end]), []
        self._runs = last
        settled = self._ink.lines(whole, width)[:-1] if whole else []
        return settled, self._ink.lines(last, width)


def split_last_line(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Split spans into those of whole lines and those of the last line."""
    for at in range(len(runs) - 1, -1, -1):
        text, style = runs[at]
        before, newline, after = text.rpartition("\n")
        if newline:
            return [*runs[:at], (before + newline, style)], [(after, style), *runs[at + 1 :]]
    return [], list(runs)


def legend(by_source: Mapping[str, int]) -> Text:
    """Show which colour belongs to which proposer, in words."""
    shown = Text()
    for by in by_source:
        shown.append(f"■ {NAMES.get(by, by)}  ", COLOURS.get(by, HEAD))
    return shown

"""A command: what it takes, what it does, and what can be completed after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from localspec.apps.chat.talk import Talk
from localspec.apps.chat.terminal.ink import visible
from localspec.base.errors import UsageError

ON, OFF = "on", "off"


def nothing(_: Talk) -> Sequence[str]:
    return ()


def switches(_: Talk) -> Sequence[str]:
    return ON, OFF


@dataclass(frozen=True, slots=True)
class Command:
    takes: str  # what it goes on with
    about: str
    run: Callable[[Talk, str], bool | None]  # False: it was stopped
    values: Callable[[Talk], Sequence[str]] | None = nothing  # that can follow; None: a path


def read_switch(text: str, before: bool) -> bool:
    """Read `on` or `off`; nothing turns it round."""
    if text not in ("", ON, OFF):
        raise UsageError(f"it is {ON} or {OFF}, not {text!r}")
    return text == ON if text else not before


def columns() -> Table:
    """A table without lines, to which rows are added by `add`."""
    return Table(box=None, show_header=False, pad_edge=False)


def add(rows: Table, *cells: str, style: str = "") -> None:
    """Add a row; what a terminal would obey in titles and names becomes visible."""
    rows.add_row(*map(visible, cells), style=style)

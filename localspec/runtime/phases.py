"""The phases of loading, which callers may hear of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

PhaseName = Literal["trying", "reading", "measuring"]


class Phase(NamedTuple):
    """A phase of loading: a file is tried in a process, its weights are read, or measured with.

    Files are tried, and what drafts cost is measured, the first time only.
    """

    name: PhaseName
    file: str
    share: float | None = None  # of the weights that was read, if the engine tells


TellPhase = Callable[[Phase], None]


def unheard(_: Phase) -> None:
    """Tell nobody."""

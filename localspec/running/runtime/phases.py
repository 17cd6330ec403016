"""The phases of loading, as they are reported to callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

PhaseName = Literal["planning", "trying", "reading", "measuring"]


class Phase(NamedTuple):
    """A phase of loading.

    name: "planning" the memory, once for each set of options; "trying" in a process of its own and
      "measuring" what drafts cost, which are done the first time only; or "reading" the weights
    file: the name of the model's file
    share: of the weights that was read, from 0 to 1, if the engine reports it
    """

    name: PhaseName
    file: str
    share: float | None = None


TellPhase = Callable[[Phase], None]


def unheard(_: Phase) -> None:
    """Report nothing."""

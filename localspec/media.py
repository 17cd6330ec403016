"""Pictures and sounds in a text: runs of positions that the engine fills with its own embeddings.

In a text of tokens, such a position is a negative number. Each run has numbers of its own, for
as long as the process lives, so texts with the same pictures compare as texts of tokens do.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from localspec.tokens import Tokens

Kind = Literal["image", "audio"]


@dataclass(frozen=True, eq=False)
class Medium:
    """A picture or a sound, as the file that came."""

    kind: Kind
    data: bytes

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.kind.encode() + self.data).digest()


class RunName(NamedTuple):
    """What makes runs the same in any process: the medium, which piece of it, its positions."""

    digest: bytes
    piece: int
    length: int


class Numbers:
    """Gives each run its numbers: `first`, `first - 1` and so on. Any thread may ask."""

    def __init__(self) -> None:
        self._first_of: dict[RunName, int] = {}
        self._name_of: dict[int, RunName] = {}
        self._next = -1
        self._lock = threading.Lock()

    def first(self, name: RunName) -> int:
        """Return the number of a run's first position."""
        with self._lock:
            if name not in self._first_of:
                self._first_of[name], self._name_of[self._next] = self._next, name
                self._next -= name.length + 1  # no run goes on in the numbers of another
            return self._first_of[name]

    def name(self, first: int) -> RunName:
        return self._name_of[first]


NUMBERS = Numbers()


class Run(Protocol):
    """Positions of a text that show a medium or a piece of it. An engine adds what it needs.

    Whoever works on a text holds its runs: without them it cannot be read again.
    """

    name: RunName
    first: int  # number of the first position
    whole: bool  # whether it is read in one row; else it may be cut anywhere


class Sight(Protocol):
    """The part of a model that takes media in. `Model.sight`; None: it reads text only."""

    kinds: frozenset[Kind]

    def pieces(self, medium: Medium) -> Sequence[Tokens | Run]:
        """Return what stands for a medium in a text: its runs, and the tokens around these.

        Any thread may ask. `UsageError` where the file is none that this model takes.
        """

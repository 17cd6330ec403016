"""Pictures and sounds in a text: runs of positions that the engine fills with its own embeddings.

In a text of tokens, such a position is a negative number. Each run has numbers of its own, for
as long as the process lives, so texts with the same pictures compare as texts of tokens do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future

    from localspec.base.tokens import Tokens

Kind = Literal["image", "audio"]


@dataclass(frozen=True, eq=False)
class Medium:
    """A picture or a sound, as the file that came."""

    kind: Kind
    data: bytes
    pixels: int = 0  # of a picture, where they were counted
    pieces: Sequence[Tokens | Run] = ()  # what stands for it in a text, where a model was asked

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.kind.encode() + self.data).digest()


class RunName(NamedTuple):
    """Name a run alike in any process: by the medium, the piece of it, and its positions."""

    digest: bytes
    piece: int
    length: int


class Run(Protocol):
    """Positions of a text that show a medium or a piece of it. An engine adds what it needs.

    Whoever works on a text holds its runs: without them it cannot be read again.
    """

    @property
    def name(self) -> RunName: ...

    @property
    def first(self) -> int:
        """The number of its first position."""

    @property
    def whole(self) -> bool:
        """Whether it is read in one row; else it may be cut anywhere."""

    def encoding(self) -> Future[object] | None:
        """Begin to encode it on another thread; None: it can be read now.

        A model reads any run, but what is not encoded it encodes first, and all texts wait.
        """


class Sight(Protocol):
    """The part of a model that takes media in. `Model.sight`; None: it reads text only."""

    kinds: frozenset[Kind]

    def pieces(self, medium: Medium) -> Sequence[Tokens | Run]:
        """Return what stands for a medium in a text: its runs, and the tokens around these.

        Any thread may ask. `UsageError` where the file is none that this model takes.
        """

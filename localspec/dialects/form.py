"""The protocol of a way to write calls: to read them, and to write them as a grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from localspec.dialects.lark import Lark
from localspec.dialects.offered_tools import OfferedTool
from localspec.dialects.parts import Parts
from localspec.dialects.tape import Reading, Tape


@dataclass(frozen=True, slots=True)
class Bare:
    """A call without a mark: the words that begin it, and what follows them as an expression."""

    words: tuple[str, ...]
    following: str


class Form(Protocol):
    @property
    def marks(self) -> tuple[str, ...]:
        """All texts that mean something here and may be control tokens."""

    @property
    def openings(self) -> tuple[str, ...]:
        """Marks that begin calls; the first one is how they should be written, if any is."""

    def within(self, tools: Sequence[OfferedTool]) -> tuple[str, ...]:
        """Beginnings of calls that may stand within content without a mark."""

    @property
    def bare(self) -> str:
        """Letters that may begin a call without a mark, where a reply begins."""

    @property
    def blanks(self) -> tuple[str, str]:
        """Blanks that may stand before calls where a reply has nothing else, and after them."""

    @property
    def followed(self) -> bool:
        """Whether content may follow calls without a mark."""

    @property
    def addressed(self) -> bool:
        """Whether an identifier follows the opening, as a part of the same word."""

    @property
    def repeats(self) -> str | None:
        """The text between one opening's calls and the next opening; None: there is no next."""

    def read(
        self, tape: Tape, parts: Parts, tools: Sequence[OfferedTool], opening: str
    ) -> Reading[None]:
        """Read calls after an opening, or bare ones; what is none of it stays written."""

    def after(self, lark: Lark, tools: Sequence[OfferedTool], parallel: bool) -> str:
        """An expression for what follows the opening."""

    def alone(self, lark: Lark, tools: Sequence[OfferedTool], parallel: bool) -> Sequence[Bare]:
        """Calls without a mark, by how they begin."""

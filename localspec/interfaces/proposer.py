"""The proposer seam: draft the next tokens, and say how likely each is to be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from localspec.base.tokens import Tokens
from localspec.interfaces.draft import Draft
from localspec.interfaces.draft_request import Ask as Ask
from localspec.interfaces.draft_request import Hints as Hints


class Proposer(Protocol):
    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return one draft per ask, in order, each at most `limit` tokens; empty means pass.

        A draft depends on its ask alone.
        """

    def release(self, slot: int) -> None:
        """Forget the slot's sequence, which is over; its next ask belongs to another."""


class RoundCost(NamedTuple):
    """The cost of a round, or of each of several alike.

    If it read prompt tokens or pictures, it teaches nothing about drafts.
    """

    rows: int
    tokens: int
    emitted: int
    seconds: float
    reads: bool
    held: int = 0  # tokens that the rows hold, together
    rounds: int = 1  # that took so much each, without drafts


@runtime_checkable
class LearningProposer(Proposer, Protocol):
    """A proposer that has the optional method `note`."""

    def note(self, cost: RoundCost) -> None:
        """Learn the cost of a round; called after each."""


class Quiet(NamedTuple):
    """How long a proposer will hardly have a draft for a text."""

    rounds: int  # from now on
    until: Callable[[Tokens], bool] | None = None  # and then until this holds of the grown text

    def is_over(self, rounds: int, text: Tokens) -> bool:
        """Whether to ask for a draft after so many rounds."""
        return rounds >= self.rounds and (self.until is None or self.until(text))


NOT_QUIET = Quiet(0)
ALWAYS_QUIET = Quiet(1 << 16)  # rounds, more than a text has


@runtime_checkable
class QuietProposer(Proposer, Protocol):
    """A proposer that knows for next to nothing where it will hardly find a good draft."""

    def quiet(self, ask: Ask) -> Quiet:
        """Return how long no draft is to be expected whose first token pays (`Ask.pays`).

        Meanwhile several rounds may be run without asking for one.
        """


@runtime_checkable
class ReadingProposer(Protocol):
    """A proposer that has to read a text before it drafts, which takes time.

    It reads when it is asked: all that is before the newest token. A limit of 0 asks for no more.
    """

    def unread(self, ask: Ask) -> int:
        """Count the tokens to read first, less the newest few that the first step takes along."""


def notes_of(proposers: Iterable[Proposer]) -> tuple[Callable[[RoundCost], None], ...]:
    """Collect the `note` of each proposer that has one."""
    return tuple(proposer.note for proposer in proposers if isinstance(proposer, LearningProposer))


def quiet_of(proposer: Proposer) -> Callable[[Ask], Quiet]:
    """Return the `quiet` of a proposer; one without is never quiet."""
    return proposer.quiet if isinstance(proposer, QuietProposer) else lambda _: NOT_QUIET

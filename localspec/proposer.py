"""The proposer seam: draft the next tokens, and say how likely each is to be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from localspec.draft import Draft
from localspec.pays import Pays, always, likely
from localspec.sampling.sampler import Sampler
from localspec.tokens import NONE, Tokens


@dataclass(frozen=True, slots=True)
class Hints:
    """A request's knowledge of its own reply."""

    # A text that the reply is likely to repeat, in whole or edited.
    prediction: Tokens = field(default_factory=lambda: NONE)
    forced: Callable[[Tokens], Tokens] | None = None  # tokens that must follow a reply
    by: tuple[str, ...] | None = None  # the proposers that may draft; None: all


NO_HINTS = Hints()


class Ask(NamedTuple):
    """Request for a draft for one sequence. History grows between asks, until `release`.

    A limit of 0 asks for no draft: it lets a proposer keep up while a prompt is being read.
    """

    slot: int
    history: Tokens  # prompt and reply
    limit: int
    sampler: Sampler
    prompt: int = 0  # how many tokens of the history are the prompt
    hints: Hints = NO_HINTS
    pays: Pays = always  # whether to draft on, by the confidences of the tokens so far
    beside: int = 0  # tokens of prompts that are read in the same batch

    def wants(self, by: str) -> bool:
        """Whether the proposer of that name may draft."""
        return self.hints.by is None or by in self.hints.by

    def until(self, limit: int, pays: Pays) -> Ask:
        """Return the same ask with another end."""
        slot, history, _, sampler, prompt, hints, _, beside = self
        return Ask(slot, history, limit, sampler, prompt, hints, pays, beside)

    def pays_above(self, floor: float) -> Pays:
        """Return its own rule for stopping, or else one by the chance that all are right."""
        return likely(floor) if self.pays is always else self.pays


class RoundCost(NamedTuple):
    """The cost of a round, or of each of several alike.

    If it read prompt tokens, it teaches nothing about drafts.
    """

    rows: int
    tokens: int
    emitted: int
    seconds: float
    reads: bool
    held: int = 0  # tokens that the rows hold, together
    rounds: int = 1  # that took so much each, without drafts
    widest: int = 0  # tokens of the longest row; 0: all had as many


class Proposer(Protocol):
    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """Return one draft per ask, in order, each at most `limit` tokens; empty means pass.

        A draft depends on its ask alone.
        """

    def release(self, slot: int) -> None:
        """Forget the slot's sequence, which is over; its next ask belongs to another."""


@runtime_checkable
class LearningProposer(Proposer, Protocol):
    """A proposer that has the optional method `note`."""

    def note(self, cost: RoundCost) -> None:
        """Learn the cost of a round; called after each."""


@runtime_checkable
class FollowingProposer(Proposer, Protocol):
    """A proposer that reads along with the target, some tokens late."""

    def behind(self, slot: int) -> int | None:
        """Count the tokens that it has yet to read of a text; None: it does not follow the text."""

    def catch_up(self, slots: Sequence[int]) -> None:
        """Read now what it has yet to read of these texts."""

    def leave(self, slot: int) -> None:
        """Note that nothing will be drafted for a text: it may follow it no more."""


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


def notes_of(proposers: Iterable[Proposer]) -> tuple[Callable[[RoundCost], None], ...]:
    """Collect the `note` of each proposer that has one."""
    return tuple(proposer.note for proposer in proposers if isinstance(proposer, LearningProposer))


def quiet_of(proposer: Proposer) -> Callable[[Ask], Quiet]:
    """Return the `quiet` of a proposer; one without is never quiet."""
    return proposer.quiet if isinstance(proposer, QuietProposer) else lambda _: NOT_QUIET

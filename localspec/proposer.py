"""The proposer seam: guess what comes next, and say how likely each guess was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from localspec.draft import Draft
from localspec.sampler import Sampler
from localspec.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Ask:
    """One sequence's request for a draft. History grows between asks, until `release`.

    A limit of 0 wants no draft: it lets a proposer keep up while a prompt is being read.
    """

    slot: int
    history: Tokens
    limit: int
    sampler: Sampler


class Proposer(Protocol):
    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """One draft per ask, in order, each at most `limit` tokens; empty means pass.

        A draft depends on the history, the limit and the sampler alone.
        """

    def release(self, slot: int) -> None:
        """The slot's sequence is over; its next ask belongs to another."""

"""What chooses the tokens of one text, as engines and proposers see it; the core implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from localspec.base.tokens import Logits
from localspec.interfaces.dice import Dice
from localspec.interfaces.distribution import Distribution


class PlainSampling(Protocol):
    """The parameters by which an engine may foresee a choice. Those of a request never change."""

    @property
    def greedy(self) -> bool: ...
    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def min_p(self) -> float: ...


class TokenSource(Protocol):
    """`drafted` are tokens after the text that nobody has verified yet."""

    @property
    def sampling(self) -> PlainSampling: ...

    @property
    def dice(self) -> Dice: ...

    @property
    def is_foreseen(self) -> bool:
        """Whether the next choices follow from logits, `sampling`, `dice` and `shift_of` alone."""

    @property
    def is_constrained(self) -> bool:
        """Whether a grammar chooses which tokens may follow."""

    def over(self, drafted: Sequence[int]) -> bool:
        """Whether nothing but the end may follow `drafted`."""

    @property
    def is_simple(self) -> bool:
        """Whether the logits of likely tokens alone give about the same drafts as all of them."""

    def adjusted(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Return logits with bias and penalties, -inf for tokens which may not follow `drafted`."""

    def draft_distribution(self, logits: Logits, drafted: Sequence[int]) -> Distribution:
        """Return the distribution to draft the next token from, by adjusted logits.

        Of a simple source, these may be a row of likely ones; the tokens are places in it.
        """

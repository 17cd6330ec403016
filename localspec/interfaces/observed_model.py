"""The interface of a model that is read for training: its inner states beside its logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # commands that need no engine start without numpy
    from localspec.base.tokens import Logits, States, Tokens


class ReadTokens(NamedTuple):
    """Hold the states and logits of some tokens of a text, valid until the next are read."""

    states: States  # before each of the observed layers, side by side
    logits: Logits


class ObservedModel(Protocol):
    """One loaded model. One thread calls it."""

    vocabulary: int  # width of a row of logits
    width: int  # numbers of a state between two layers

    def read(self, tokens: Tokens) -> Iterator[ReadTokens]:
        """Read a text from its beginning, piece by piece."""

    def embeddings(self, tokens: Tokens) -> States:
        """Return the rows by which a head embeds these tokens."""

    def outputs(self, tokens: Tokens) -> States:
        """Return the rows of the output matrix that give the logits of these tokens."""

    def last_norm(self) -> States:
        """Return the factors of the norm before the output matrix."""

    def close(self) -> None:
        """Free everything; calling it twice is safe."""

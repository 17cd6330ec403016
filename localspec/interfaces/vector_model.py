"""The interface of a model that reads whole texts, into a vector or a score each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from localspec.interfaces.backend import Model, Options, Progress, silent

if TYPE_CHECKING:  # commands that need no engine start without numpy
    from localspec.base.tokenizer import Tokenizer
    from localspec.base.tokens import Tokens, Vectors


class VectorModel(Protocol):
    """One loaded model, maybe a `RestingModel`. One thread calls `read`; any may tokenise."""

    tokenizer: Tokenizer
    pooling: str  # how a text becomes a vector: "mean", "cls", "last", or "rank": into scores
    dimensions: int  # numbers in a row
    context: int  # tokens that one text can have
    batch: int  # tokens that are read at once; one text may have more
    texts: int  # texts that are read at once

    def read(self, texts: Sequence[Tokens]) -> Vectors:
        """Return a row for each text, as the model gives it: not normalised."""

    def text(self, text: str, most: int | None = None) -> Tokens:
        """Tokenise a text with the marks that the model wants around it, cut to `most` tokens."""

    def pair(self, query: str, document: str, most: int | None = None) -> Tokens:
        """Tokenise a query and a document as a reranker wants them; the document may be cut.

        A query that leaves no room for a document is not cut: there may be more than `most` tokens.
        """

    def close(self) -> None:
        """Free everything; calling it twice is safe."""


class VectorEngine(Protocol):
    def load_vectors(self, path: Path, options: Options, tell: Progress = silent) -> VectorModel:
        """Load a model that reads whole texts: one whose footprint has a `pooling`."""

    def vectors_beside(self, model: Model, options: Options) -> VectorModel:
        """Turn whole texts into vectors by a loaded model's weights, as `options.pooling` says.

        Close it before the model; one thread may call it while another one calls the model.
        """

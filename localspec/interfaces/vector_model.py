"""The interface of a model that reads whole texts, into a vector or a score each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:  # commands that need no engine start without numpy
    from localspec.base.tokenizer import Tokenizer
    from localspec.base.tokens import Tokens, Vectors

Kind = Literal["text", "embedding", "reranking"]
DOES: Mapping[Kind, str] = {
    "text": "continues text",
    "embedding": "turns texts into vectors",
    "reranking": "ranks documents",
}
RANK = "rank"  # the pooling of a model that scores pairs
VECTOR_POOLINGS = ("mean", "cls", "last")  # by which a text becomes a vector


def kind_of(pooling: str) -> Kind:
    """Return what a model does by how it pools: without a pooling it continues text."""
    if not pooling:
        return "text"
    return "reranking" if pooling == RANK else "embedding"


class VectorModel(Protocol):
    """One loaded model. One thread calls `read`; any may tokenise."""

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

    def rest(self) -> None:
        """Note, on the thread that reads, that nothing waits."""

    def close(self) -> None:
        """Free everything; calling it twice is safe."""

"""A loaded model of whole texts for its users: vectors of texts, and scores of pairs."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np

from localspec.base.errors import PromptTooLong, UsageError
from localspec.base.interruption import check_patience
from localspec.base.tokens import Tokens, Vectors, tokens_of
from localspec.core.vectors.rows import normalise, scores, shorten
from localspec.core.vectors.worker import Done, Reading, VectorWorker
from localspec.interfaces.footprint import DOES, Kind, kind_of
from localspec.interfaces.vector_model import VectorModel
from localspec.running.memory.machine import Pool
from localspec.running.runtime.loaded_facts import NO_FACTS, LoadedFacts

NO_PREFIXES: Mapping[str, str] = {}
ORDINARY_TOKEN_BYTES = 16  # bytes of a token, up to which a text that is cut is tokenised


class VectorRuntime:
    """A loaded model of whole texts. Any thread may call it; requests are read together.

    Used as a context it is closed at the end.

    kind: "embedding" or "reranking"
    dimensions: numbers of a vector
    context: tokens that one text can have
    slots: texts that are read at once
    prefixes: what goes before a text, by what the text is: "query" or "document"
    """

    kept_bytes = 0  # nothing of a text is kept

    def __init__(
        self,
        model: VectorModel,
        facts: LoadedFacts = NO_FACTS,
        prefixes: Mapping[str, str] = NO_PREFIXES,
    ) -> None:
        self.tokenizer = model.tokenizer
        self.pooling, self.kind = model.pooling, kind_of(model.pooling)
        self.dimensions, self.context, self.slots = model.dimensions, model.context, model.texts
        self.facts, self.prefixes = facts, prefixes
        self._model = model
        self._worker = VectorWorker(model)
        self._close = weakref.finalize(self, self._worker.close)

    def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        kind: str = "",
        dimensions: int | None = None,
        cut: bool = False,
    ) -> Vectors:
        """Return a normalised vector for each text, given as text or as tokens.

        `kind` is "query" or "document" where the model tells them apart; `dimensions` keeps the
        first numbers of a vector; `cut` shortens texts that are too long.
        """
        if isinstance(texts, str):
            raise UsageError("texts are a list, and this is one text")
        self.require("embedding")
        prefix, most = self.prefixes.get(kind, ""), self.context if cut else None
        rows = self._read([self.tokens(text, prefix, most) for text in texts])
        return normalise(shorten(rows, dimensions))

    def rank(
        self, query: str, documents: Sequence[str], *, cut: bool = True, raw: bool = False
    ) -> Vectors:
        """Return a score for each document, from 0 to 1: how well it answers a query."""
        self.require("reranking")
        most = self.context if cut else None
        pairs = [self.pair(query, document, most) for document in documents]
        return scores(self._read(pairs), raw=raw)

    def _read(self, texts: Sequence[Tokens]) -> Vectors:
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        future: Future[Vectors] = Future()

        def done(result: Vectors | Exception) -> None:
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.submit(texts, done)
        return future.result()

    def submit(self, texts: Sequence[Tokens], done: Done) -> Reading:
        """Read tokens; `done` is called on the model's thread with the rows, or an error."""
        return self._worker.submit(texts, done)

    def tokens(
        self,
        text: str | Sequence[int],
        prefix: str = "",
        most: int | None = None,
        name: str = "text",
    ) -> Tokens:
        """Tokenise a text, or check tokens, cut to `most`; refuse what cannot be read."""
        check_patience()
        if isinstance(text, str):
            tokens = self._model.text(prefix + self._bound(text, most, name), most)
        else:
            tokens = tokens_of(self._require_tokens(text, name)[:most])
        if not len(tokens):
            raise UsageError(f"{name} is empty: this model has no marks to read in its place")
        return self._require_short(tokens, name)

    def pair(
        self, query: str, document: str, most: int | None = None, name: str = "document"
    ) -> Tokens:
        """Tokenise a query and a document, which is cut so that both have `most` tokens."""
        check_patience()
        query = self._bound(query, None, "query")
        tokens = self._model.pair(query, self._bound(document, most, name), most)
        return self._require_short(tokens, name if most is None else "query")

    def _bound(self, text: str, most: int | None, name: str) -> str:
        """Cut a text that is to be cut, or refuse it, before tokenising it takes long."""
        letters = self.context * ORDINARY_TOKEN_BYTES
        if len(text) <= letters:
            return text
        start = text[:letters]
        if most is None and len(self._model.text(start)) > self.context:
            raise self._too_long(f"{len(text):,} letters", name)
        return text if most is None else start

    def _require_short(self, tokens: Tokens, name: str) -> Tokens:
        if len(tokens) > self.context:
            raise self._too_long(f"{len(tokens):,} tokens", name)
        return tokens

    def _too_long(self, length: str, name: str) -> PromptTooLong:
        trained = self.facts.target.footprint.context if self.facts.target else 0
        hint = ", or load the model with a larger --context" if trained > self.context else ""
        return PromptTooLong(
            f"{name} has {length}; this model was loaded for {self.context:,} tokens: shorten it, "
            f"or have it cut by `truncate`{hint}"
        )

    def _require_tokens(self, tokens: Sequence[int], name: str) -> Sequence[int]:
        size = self.tokenizer.size
        if wrong := next((token for token in tokens if not 0 <= token < size), None):
            raise UsageError(f"{name} has the token {wrong:,}; there are {size:,}, from 0")
        return tokens

    def require(self, kind: Kind) -> None:
        """Refuse what this model does not do."""
        if self.kind != kind:
            raise UsageError(f"this model {DOES[self.kind]}; give one that {DOES[kind]}")

    def devices(self) -> list[Pool]:
        """Measure the memories in use by the model; empty where they are not known."""
        return self.facts.devices()

    def close(self) -> None:
        """End every request and free the model; safe to call twice."""
        self._close()

    def __enter__(self) -> VectorRuntime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Reranking and scores: the requests of Jina, Cohere, TEI and vLLM, and their answers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from localspec.apps.server.faults import refused
from localspec.apps.server.replies.frame import new_id
from localspec.apps.server.requests.validators import as_listed
from localspec.apps.server.vectors.cutting import CutFields
from localspec.apps.server.vectors.reading import Rows, require_few
from localspec.base.tokens import Tokens
from localspec.core.vectors.rows import scores
from localspec.running.runtime.vector_runtime import VectorRuntime

Object = dict[str, object]


def as_document(value: object) -> object:
    """Read the text of a document that is an object."""
    return value.get("text", value) if isinstance(value, dict) else value


Document = Annotated[str, BeforeValidator(as_document)]
Texts = Annotated[Annotated[list[Document], Field(fail_fast=True)], BeforeValidator(as_listed)]


class RerankRequest(CutFields):
    """A query and documents to rank by it; documents are cut unless it says otherwise."""

    cut_by_default: ClassVar[bool] = True
    query: Document
    documents: Texts = Field(default_factory=list)
    texts: Texts = Field(default_factory=list)  # the documents, as TEI calls them
    top_n: int | None = Field(None, ge=0)
    top_k: int | None = Field(None, ge=0)  # the same, as Voyage calls it
    return_documents: bool = False
    return_text: bool = False  # the same, as TEI calls it
    raw_scores: bool = False  # as the model gives them, which may be any numbers

    @property
    def listed(self) -> Sequence[str]:
        return self.documents or self.texts

    def tokens(self, runtime: VectorRuntime) -> list[Tokens]:
        require_few(len(self.listed), "documents")
        most = self.most_tokens(runtime.context)
        return [
            runtime.pair(self.query, document, most, f"documents.{at}")
            for at, document in enumerate(self.listed)
        ]

    def write(self, result: Rows) -> bytes:
        """Write the documents, the best first, in the form in which they were asked for."""
        values = scores(result.rows, raw=self.raw_scores).astype(float)
        order = sorted(range(len(values)), key=lambda at: -values[at])
        most = self.top_n if self.top_n is not None else self.top_k
        results = [self._result(at, float(values[at])) for at in order[:most]]
        if not self.documents:
            return json.dumps(results).encode()
        answer: Object = {"id": new_id("rerank-"), "object": "list"}
        answer |= {"model": result.model, "usage": result.usage, "results": results}
        return json.dumps(answer).encode()

    def _result(self, at: int, score: float) -> Object:
        text = self.listed[at]
        if not self.documents:
            return {"index": at, "score": score} | ({"text": text} if self.return_text else {})
        result: Object = {"index": at, "relevance_score": score}
        return result | ({"document": {"text": text}} if self.return_documents else {})


class ScoreRequest(CutFields):
    """Pairs of texts to score, as vLLM has them: one with several, or each with its own."""

    text_1: Texts = Field(default_factory=list)
    text_2: Texts = Field(default_factory=list)
    queries: Texts = Field(default_factory=list)  # the same, by newer names
    documents: Texts = Field(default_factory=list)
    items: Texts = Field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        first, second = self.text_1 or self.queries, self.text_2 or self.documents or self.items
        require_few(len(first), "text_1")
        require_few(len(second), "text_2")
        if len(first) == 1:
            first = first * len(second)
        if len(first) != len(second):
            raise refused(
                f"text_1 has {len(first):,} texts and text_2 {len(second):,}; give one text_1, or "
                "as many as there are of text_2",
                "text_1",
            )
        return list(zip(first, second, strict=True))

    def tokens(self, runtime: VectorRuntime) -> list[Tokens]:
        most = self.most_tokens(runtime.context)
        return [
            runtime.pair(one, other, most, f"text_2.{at}")
            for at, (one, other) in enumerate(self.pairs)
        ]

    def write(self, result: Rows) -> bytes:
        data = [
            {"index": at, "object": "score", "score": float(score)}
            for at, score in enumerate(scores(result.rows))
        ]
        answer: Object = {"id": new_id("score-"), "object": "list"}
        answer |= {"created": int(time.time()), "model": result.model}
        return json.dumps(answer | {"data": data, "usage": result.usage}).encode()

"""A GGUF model that reads whole texts: embeddings and rerankers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from localspec.base.errors import BackendError, ModelFileError, OutOfMemory
from localspec.base.system.free_memory import memory
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import Tokens, Vectors, tokens_of
from localspec.interfaces.backend import TEXT_CONTEXT, Options, Progress, silent
from localspec_llamacpp import openmp, remote
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.pooled import BATCH, TEXTS, PooledContext, PooledShape, reads_on
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.checks import check
from localspec_llamacpp.cores import physical_cores
from localspec_llamacpp.devices import on_cpu
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.loading import placement, suits_huge_pages
from localspec_llamacpp.model import LlamaModel
from localspec_llamacpp.tokenizer import GgufTokenizer

FLOAT = 4  # bytes
TEXTS_BESIDE = 8  # that are read at once beside a model that continues text
LETTER = b"a"  # a text to see marks around
SLOT = re.compile(r"\{(query|document)\}")  # in the template of a reranker


def load_vectors(path: Path, options: Options, tell: Progress = silent) -> LlamaVectors:
    """Load a model that reads whole texts."""
    footprint = inspect(path)
    if not footprint.pooling:
        raise ModelFileError(f"{path.name} does not say how a text becomes a vector")
    check(footprint, options)
    LOG.verbose = options.verbose
    place = placement(options, footprint)._replace(huge_pages=suits_huge_pages(footprint, options))
    with ExitStack() as stack:
        weights = ModelWeights(path, place, tell=tell)
        stack.callback(weights.close)
        context = PooledContext(weights, pooled_shape(weights, options))
        stack.callback(context.close)
        tokenizer = GgufTokenizer(weights, footprint.tokenizer, footprint.chat_template)
        remote.end_silence()
        return LlamaVectors(weights, context, tokenizer, stack.pop_all())


def pooled_shape(weights: ModelWeights, options: Options) -> PooledShape:
    trained = weights.context or TEXT_CONTEXT
    shape = PooledShape(
        tokens=min(options.context or TEXT_CONTEXT, trained),
        texts=TEXTS,
        flash_attention=options.flash_attention,
        threads=options.threads_batch or options.threads or physical_cores(),
        fixed_threads=bool(options.threads_batch or options.threads) or not on_cpu(options),
    )
    return replace(shape, in_pieces=reads_on(weights, shape))


def vectors_beside(model: LlamaModel, options: Options) -> LlamaVectors:
    """Set up a second context of a loaded model, which pools."""
    weights, tokenizer = model.weights, model.tokenizer
    with ExitStack() as stack:
        context = PooledContext(weights, shape_beside(weights, options))
        stack.callback(context.close)
        return LlamaVectors(weights, context, tokenizer, stack.pop_all())


def shape_beside(weights: ModelWeights, options: Options) -> PooledShape:
    """Choose the size of a context that pools beside one that continues text.

    Unless the last token alone counts, each token of a batch takes a row of the vocabulary.
    """
    last = options.pooling == "last"
    shape = PooledShape(
        tokens=min(TEXT_CONTEXT if last else BATCH, weights.context or BATCH),
        texts=TEXTS_BESIDE,
        flash_attention=options.flash_attention,
        threads=options.threads_batch or options.threads or physical_cores(),
        fixed_threads=bool(options.threads_batch or options.threads) or not on_cpu(options),
        pooling=options.pooling,
    )
    return replace(shape, in_pieces=last and reads_on(weights, shape))


class LlamaVectors:
    def __init__(
        self,
        weights: ModelWeights,
        context: PooledContext,
        tokenizer: Tokenizer,
        stack: ExitStack,
    ) -> None:
        self.tokenizer: Tokenizer = tokenizer
        self.pooling, self.dimensions = context.pooling, context.dimensions
        self.context, self.texts = context.shape.tokens, context.shape.texts
        self.batch = min(BATCH, self.context)
        self._context = context
        # Texts are taken by any thread, also while another one closes the model.
        self._template = weights.rerank_template
        self._before, self._behind = marks(weights)
        self._start, self._between, self._end = joints(weights)
        self._most = self.batch  # tokens that were read at once so far
        self._stack, self._closed = stack, False

    def read(self, texts: Sequence[Tokens]) -> Vectors:
        if self._closed:
            raise BackendError("this model was closed; load it again")
        tokens = sum(map(len, texts))
        if tokens > max(self.batch, self.context) or len(texts) > self.texts:
            raise BackendError(f"{len(texts)} texts of {tokens:,} tokens are too many at once")
        if not self._context.shape.in_pieces:
            self._require_memory(tokens)
        return self._context.read(texts)

    def _require_memory(self, tokens: int) -> None:
        """Refuse a text that is longer than all before, if llama.cpp's logits would not fit.

        It keeps room for a row of logits of each token, also where a model has none.
        """
        if tokens <= self._most:
            return
        needed = (tokens - self._most) * self.tokenizer.size * FLOAT
        free = memory().free_bytes
        if needed > free:
            raise OutOfMemory(
                f"a text of {tokens:,} tokens takes {needed >> 20:,} MiB more, and {free >> 20:,} "
                "MiB are free: send it in parts"
            )
        self._most = tokens

    def text(self, text: str, most: int | None = None) -> Tokens:
        inner = self.tokenizer.encode(text, special=True)
        if most is not None:
            inner = inner[: max(most - len(self._before) - len(self._behind), 0)]
        return np.concatenate([self._before, inner, self._behind])

    def pair(self, query: str, document: str, most: int | None = None) -> Tokens:
        join = self._joined if self._template is None else self._filled
        pair = join(query, document)
        if most is None or len(pair) <= most:
            return pair
        tokens = self.tokenizer.encode(document)
        kept = len(tokens) - (len(pair) - most)
        while kept > 0 and len(pair) > most:  # where a text ends otherwise, a token may be more
            pair = join(query, self._spelt(tokens[:kept]))
            kept -= max(len(pair) - most, 1)
        return pair

    def _filled(self, query: str, document: str) -> Tokens:
        texts = {"query": query, "document": document}
        filled = SLOT.sub(lambda slot: texts[slot[1]], self._template or "")
        return self.tokenizer.encode(filled, special=True)

    def _joined(self, query: str, document: str) -> Tokens:
        parts = self.tokenizer.encode(query), self._between, self.tokenizer.encode(document)
        return np.concatenate([self._start, *parts, self._end])

    def _spelt(self, tokens: Tokens) -> str:
        spelling = b"".join(map(self.tokenizer.token_bytes, tokens.tolist()))
        return spelling.decode("utf-8", "ignore")

    def rest(self) -> None:
        openmp.end_threads()

    def close(self) -> None:
        self._closed = True
        self._stack.close()


def joints(weights: ModelWeights) -> tuple[Tokens, Tokens, Tokens]:
    """List the tokens before, between and after the two texts of a pair."""
    start = (weights.bos,) if weights.starts and weights.bos is not None else ()
    between = (*weights.closing, *weights.separating)
    return tokens_of(start), tokens_of(between), tokens_of(weights.closing)


def marks(weights: ModelWeights) -> tuple[Tokens, Tokens]:
    """Ask the vocabulary what it puts before and after a text."""
    bare = weights.tokenize(LETTER, special=False)
    whole = weights.tokenize(LETTER, special=False, marks=True)
    for at in range(len(whole) - len(bare) + 1):
        if np.array_equal(whole[at : at + len(bare)], bare):
            return whole[:at], whole[at + len(bare) :]
    raise ModelFileError(f"{weights.path.name} has a vocabulary that changes texts by their marks")

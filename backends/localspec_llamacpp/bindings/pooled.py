"""A context that reads whole texts at once, and pools each into a row of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np

from localspec.base.errors import BackendError, OutOfMemory
from localspec.base.interruption import interrupt_held
from localspec.base.tokens import Tokens, Vectors
from localspec_llamacpp import worker_graphs
from localspec_llamacpp.bindings.batch import LlamaBatch, Part
from localspec_llamacpp.bindings.context import NO_MEMORY
from localspec_llamacpp.bindings.library import POOLINGS
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.threads import ContextThreads

CODES = {name: code for code, name in POOLINGS.items()}
TEXTS = 64  # that are read at once
BATCH = 512  # tokens that are read at once, where texts are shorter
SMALLEST = 256  # tokens of a context that only shows what kind it is


@dataclass(frozen=True, slots=True)
class PooledShape:
    """The size of a context."""

    tokens: int  # of the longest text
    texts: int
    flash_attention: bool | None  # None: llama.cpp decides
    threads: int
    fixed_threads: bool  # also where other programs use the processors
    in_pieces: bool = False  # whether a long text is read piece by piece
    pooling: str = ""  # empty: as the file says


class PooledContext:
    """Reads whole texts, and forgets them."""

    def __init__(self, weights: ModelWeights, shape: PooledShape) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max = max(shape.tokens, shape.texts), shape.texts
        params.n_batch = params.n_ubatch = params.n_ctx
        if shape.in_pieces:
            # Each output takes a row of logits, which nobody reads.
            params.n_outputs_max = shape.texts
            params.n_batch = params.n_ubatch = min(params.n_ctx, BATCH)
        params.n_threads = params.n_threads_batch = shape.threads
        params.embeddings = True
        if shape.pooling:
            params.pooling_type = CODES[shape.pooling]
        params.kv_unified = True
        flash = shape.flash_attention
        params.flash_attn_type = -1 if flash is None else int(flash)
        params.no_perf = True
        LOG.take_errors()
        with interrupt_held():
            self.pointer: Any = lib.llama_init_from_model(weights.pointer, params)
        worker_graphs.forget()
        if not self.pointer:
            raise LOG.failure(f"llama.cpp could not set up texts of {shape.tokens:,} tokens")
        self.shape = shape
        self._threads = ContextThreads(self.pointer, shape.threads, fixed=shape.fixed_threads)
        self._batch = LlamaBatch(params.n_batch, shape.texts)
        self._width = params.n_batch
        self._ids = range(shape.texts)
        self._memory = lib.llama_get_memory(self.pointer)
        self.pooling = POOLINGS.get(int(lib.llama_pooling_type(self.pointer)), "")
        self.dimensions = weights.classes if self.pooling == "rank" else weights.hidden_width

    @property
    def reads_on(self) -> bool:
        """Whether a text can be read piece by piece: only its last token is looked at."""
        causal = self._memory and lib.llama_get_causal_attn(self.pointer)
        return bool(causal) and self.pooling in ("last", "rank")

    def read(self, texts: Sequence[Tokens]) -> Vectors:
        """Return a row for each text."""
        if self.shape.in_pieces:
            return self._read_on(texts)
        self._run([Part(at, 0, text, len(text)) for at, text in enumerate(texts)])
        return self._rows(len(texts))

    def _read_on(self, texts: Sequence[Tokens]) -> Vectors:
        """Read all tokens but the last of each text without outputs, then those last ones.

        An output takes the whole matrix to the vocabulary, whether its logits are asked for or not.
        """
        lib.llama_set_embeddings(self.pointer, False)
        for piece in pieces(texts, self._width):
            self._run(piece)
        lib.llama_set_embeddings(self.pointer, True)
        self._run([Part(at, len(text) - 1, text[-1:], 1) for at, text in enumerate(texts)])
        return self._rows(len(texts))

    def _run(self, parts: Sequence[Part]) -> None:
        self._batch.fill(parts, self._ids)
        LOG.forget_errors()
        worker_graphs.RUN.add(self.pointer)
        self._threads.follow()
        if status := lib.llama_decode(self.pointer, self._batch.struct):
            self._forget()
            kind = OutOfMemory if status == NO_MEMORY else BackendError
            raise kind(f"llama.cpp could not read texts ({status}): {LOG.take_errors()}")

    def _rows(self, count: int) -> Vectors:
        rows = np.empty((count, self.dimensions), np.float32)
        for at in range(count):
            row = lib.llama_get_embeddings_seq(self.pointer, at)
            if not row:
                raise BackendError("llama.cpp read a text, and gave no row for it")
            rows[at] = np.ctypeslib.as_array(row, (self.dimensions,))
        self._forget()
        return rows

    def _forget(self) -> None:
        if self._memory:
            lib.llama_memory_clear(self._memory, False)

    def close(self) -> None:
        with interrupt_held():
            lib.llama_free(self.pointer)
            worker_graphs.RUN.discard(self.pointer)
            worker_graphs.forget()


def pieces(texts: Sequence[Tokens], width: int) -> list[list[Part]]:
    """Divide all tokens but the last of each text among batches of a width."""
    batches: list[list[Part]] = [[]]
    left = width
    for at, text in enumerate(texts):
        start, end = 0, len(text) - 1
        while start < end:
            if not left:
                batches.append([])
                left = width
            stop = min(end, start + left)
            batches[-1].append(Part(at, start, text[start:stop], 0))
            left -= stop - start
            start = stop
    return [batch for batch in batches if batch]


def reads_on(weights: ModelWeights, shape: PooledShape) -> bool:
    """Ask a small context whether its model can read a text piece by piece."""
    small = PooledContext(weights, replace(shape, tokens=SMALLEST, texts=1))
    try:
        return small.reads_on
    finally:
        small.close()

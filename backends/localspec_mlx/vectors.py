"""Whole texts as vectors, by an embedder or by a model that also continues text.

Padding on the right changes nothing, as tokens see those before them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from localspec.base.errors import BackendError, LocalSpecError, ModelFileError
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import Tokens, Vectors
from localspec.interfaces.backend import TEXT_CONTEXT, Options, Progress, silent
from localspec_mlx import tuning
from localspec_mlx.blueprint import native
from localspec_mlx.devices import failure, keep_buffers, prepare, tidy
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.halves import convert, require_finite
from localspec_mlx.loading import check, context, load_weights, read_weights, ways_for
from localspec_mlx.model import MlxModel, SharedModel
from localspec_mlx.runner import padded
from localspec_mlx.working import TEXT_BATCH, reading

TEXTS = 64  # that are read at once
PADDING = 64  # tokens that may be added to texts in order to read them together
INNER = ("model", "backbone", "transformer")  # as definitions call what ends before the output


def load_vectors(path: Path, options: Options, tell: Progress = silent) -> MlxVectors:  # noqa: ARG001
    """Load a folder of sentence-transformers, of a kind that mlx-lm defines."""
    check(options)
    footprint = inspect(path)
    if not footprint.pooling:
        raise ModelFileError(f"{path.name} does not say how a text becomes a vector")
    prepare()
    module = load_weights(path)
    halved = convert(module, path.name) if options.compute == "float16" else 0
    read_weights(module, path)
    tuning.tune(module, ways_for(options))
    tokenizer = load_tokenizer(path, footprint.vocabulary)
    if halved:
        require_finite(native(module), tokenizer, path.name)
    longest = context(footprint, options)
    vectors = MlxVectors(SharedModel(module, tokenizer, RLock()), footprint.pooling, longest)
    keep_buffers(vectors, reading(footprint, options, longest))
    return vectors


def vectors_beside(model: MlxModel, options: Options) -> MlxVectors:
    """Have a loaded model read whole texts, too, in turns with what it continues."""
    assert model.shared is not None
    return MlxVectors(model.shared, options.pooling, min(TEXT_CONTEXT, model.context))


class MlxVectors:
    def __init__(self, shared: SharedModel, pooling: str, context: int) -> None:
        self.tokenizer: Tokenizer = shared.tokenizer
        self.pooling, self.context = pooling, context
        self.batch, self.texts = min(TEXT_BATCH, context), TEXTS
        self._before, self._behind = shared.tokenizer.around
        self.dimensions = width(inner(shared.module))
        self._shared: SharedModel | None = shared
        self._stream = mx.new_thread_local_stream(mx.default_device())

    def read(self, texts: Sequence[Tokens]) -> Vectors:
        shared, tokens = self._shared, sum(map(len, texts))
        if shared is None:
            raise BackendError("this model was closed; load it again")
        if tokens > max(self.batch, self.context) or len(texts) > self.texts:
            raise BackendError(f"{len(texts)} texts of {tokens:,} tokens are too many at once")
        tidy()
        try:
            with shared.turn, mx.stream(self._stream):
                rows = self._rows(shared.module, texts)
                return np.array(mx.stack(rows).astype(mx.float32))
        except LocalSpecError:
            raise
        except Exception as error:
            raise failure("MLX could not read texts", error) from error

    def _rows(self, module: Module, texts: Sequence[Tokens]) -> list[mx.array]:
        rows: dict[int, mx.array] = {}
        for group in groups([len(text) for text in texts]):
            tokens = padded([texts[at] for at in group], self.tokenizer.size)
            if tokens.shape[1] > TEXT_BATCH:
                rows[group[0]] = self._read_in_pieces(module, tokens)
            else:
                states, lengths = inner(module)(tokens), [len(texts[at]) for at in group]
                rows |= zip(group, pooled(states, lengths, self.pooling), strict=True)
        return [rows[at] for at in range(len(texts))]

    def _read_in_pieces(self, module: Module, tokens: mx.array) -> mx.array:
        """Read a long text with the caches that mlx-lm has for it."""
        caches, rows, lengths = make_prompt_cache(module), [], []
        for start in range(0, tokens.shape[1], TEXT_BATCH):
            piece = tokens[:, start : start + TEXT_BATCH]
            lengths.append(piece.shape[1])
            [row] = pooled(inner(module)(piece, cache=caches), lengths[-1:], self.pooling)
            mx.eval(row, [cache.state for cache in caches])
            rows.append(row)
        if self.pooling != "mean":
            return rows[0 if self.pooling == "cls" else -1]
        shares = mx.array(lengths) / tokens.shape[1]
        return (mx.stack(rows) * shares[:, None]).sum(axis=0)

    def text(self, text: str, most: int | None = None) -> Tokens:
        tokens = self.tokenizer.encode(text, special=True)
        if most is not None:
            tokens = tokens[: max(most - len(self._before) - len(self._behind), 0)]
        return np.concatenate([self._before, tokens, self._behind])

    def pair(self, query: str, document: str, most: int | None = None) -> Tokens:
        raise BackendError("MLX ranks no documents here: give the GGUF of a reranker")

    def close(self) -> None:
        self._shared = None
        mx.clear_cache()


def inner(module: Module) -> Any:
    """Find the part of a model that returns the states after its last norm."""
    text = module.language_model if "language_model" in module else module
    for name in INNER:
        if name in text:
            return text[name]
    raise ModelFileError(
        f"a {type(module).__name__} of mlx-lm has no part that ends before its output: omit "
        "--pooling"
    )


def width(part: Any) -> int:
    """Count the numbers of a state, without evaluating anything."""
    states: mx.array = part(mx.zeros((1, 1), mx.int32))
    return states.shape[-1]


def pooled(states: mx.array, lengths: list[int], pooling: str) -> mx.array:
    """Make a row of the states of each text [texts, width, numbers], of which some are padding."""
    if pooling == "cls":
        return states[:, 0]
    ends = mx.array(lengths)
    if pooling == "last":
        return states[mx.arange(len(lengths)), ends - 1]
    real = mx.arange(states.shape[1]) < ends[:, None]
    total = mx.where(real[..., None], states.astype(mx.float32), 0).sum(axis=1)
    return total / ends[:, None]


def groups(lengths: Sequence[int]) -> list[list[int]]:
    """Divide texts by their lengths among runs, a long one alone, so that each pads little."""
    divided: list[list[int]] = []
    longest = padding = 0
    for at in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        padding += longest - lengths[at]
        if not divided or longest > TEXT_BATCH or padding > PADDING:
            divided.append([])
            longest, padding = lengths[at], 0
        divided[-1].append(at)
    return divided

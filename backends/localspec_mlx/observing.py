"""An MLX model that is read for training: its inner states, and the logits of every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from localspec.base.errors import ModelFileError
from localspec.base.tokens import States, Tokens
from localspec.interfaces.observed_model import ReadTokens
from localspec_mlx.devices import prepare
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.heads.tap import Tap
from localspec_mlx.heads.target import body, output
from localspec_mlx.loading import load_weights
from localspec_mlx.trial import width

BATCH = 256  # tokens that are read at once
UNITS = 64  # inputs of a matrix that are multiplied at once, to see its rows


def observe(path: Path, layers: Sequence[int], _: int) -> MlxObserved:
    """Load a model; the input of a layer is what the one before it returned."""
    inspect(path)
    prepare()
    model = load_weights(path)
    try:
        return MlxObserved(model, layers)
    except ValueError as error:
        raise ModelFileError(f"no head can be trained for {path.name}: {error}") from error


class MlxObserved:
    def __init__(self, model: Module, layers: Sequence[int]) -> None:
        inner = body(model)
        self._model: Module | None = model
        self._inner, self._output = inner, output(model)
        self._tap = Tap([inner.layers[at - 1] if at else inner.embed_tokens for at in layers])
        self.vocabulary, self.width = width(model), inner.norm.weight.shape[-1]

    def read(self, tokens: Tokens) -> Iterator[ReadTokens]:
        assert self._model is not None
        caches = make_prompt_cache(self._model)
        for at in range(0, len(tokens), BATCH):
            piece = mx.array(tokens[None, at : at + BATCH])
            logits = self._model(piece, cache=caches)[0]
            yield ReadTokens(copied(self._tap.take_states()[0]), copied(logits))

    def embeddings(self, tokens: Tokens) -> States:
        return copied(self._inner.embed_tokens(mx.array(tokens)))

    def outputs(self, tokens: Tokens) -> States:
        """Multiply units, which works for matrices in any number of bits."""
        units, rows = mx.eye(self.width), mx.array(tokens)
        columns = [
            copied(self._output(units[at : at + UNITS])[:, rows])
            for at in range(0, self.width, UNITS)
        ]
        return np.ascontiguousarray(np.concatenate(columns).T)

    def last_norm(self) -> States:
        return copied(self._inner.norm(mx.ones((1, self.width)))[0])

    def close(self) -> None:
        self._model = None
        mx.clear_cache()


def copied(array: mx.array) -> States:
    return np.array(array.astype(mx.float32))

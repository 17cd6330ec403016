"""A GGUF model that is read for training: its inner states, and the logits of every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from localspec.base.errors import ModelFileError
from localspec.base.tokens import States, Tokens
from localspec.interfaces.backend import Options
from localspec.interfaces.observed_model import ReadTokens
from localspec_llamacpp.bindings import nextn
from localspec_llamacpp.bindings.batch import Part
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.bindings.watching import LAYER_INPUTS
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.checks import check, check_kind
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.loading import placement, shape

LOGIT_BYTES = 256 << 20  # of one batch
EMBEDDING, OUTPUT, NORM = "token_embd.weight", "output.weight", "output_norm.weight"


def observe(path: Path, layers: Sequence[int], most: int) -> LlamaObserved:
    """Load a model to be read for training."""
    footprint = inspect(path)
    batch = min(max(LOGIT_BYTES // (4 * footprint.vocabulary), 64), 512)
    options = Options(context=max(most, batch), batch=batch)
    check(footprint, options)
    if not nextn.available(layers=True):
        raise ModelFileError("this llama-cpp-python gives no states of inner layers: upgrade it")
    with ExitStack() as stack:
        weights = ModelWeights(path, placement(options, footprint))
        stack.callback(weights.close)
        check_kind(weights, footprint)
        form = shape(weights, options, footprint)
        watched = weights.architecture not in LAYER_INPUTS
        context = Context(weights, replace(form, outputs=batch, watched=watched))
        stack.callback(context.close)
        context.tell_before(layers)
        return LlamaObserved(weights, context, stack.pop_all())


class LlamaObserved:
    def __init__(self, weights: ModelWeights, context: Context, stack: ExitStack) -> None:
        self.vocabulary, self.width = weights.vocabulary, weights.inner_width
        self._context = context
        self._header = read(weights.path)
        self._tensors = {tensor.name: tensor for tensor in self._header.tensors}
        self.close = stack.close

    def read(self, tokens: Tokens) -> Iterator[ReadTokens]:
        self._context.memory.clear(0)
        batch = self._context.shape.batch
        for at in range(0, len(tokens), batch):
            piece = tokens[at : at + batch]
            logits = self._context.decode([Part(0, at, piece, len(piece))])
            yield ReadTokens(self._context.states(len(piece))[:], logits)

    def embeddings(self, tokens: Tokens) -> States:
        return self._rows(EMBEDDING, tokens)

    def outputs(self, tokens: Tokens) -> States:
        return self._rows(OUTPUT if OUTPUT in self._tensors else EMBEDDING, tokens)

    def last_norm(self) -> States:
        factors: States = self._rows(NORM, np.zeros(1, np.int32))[0]
        return factors

    def _rows(self, name: str, rows: Tokens) -> States:
        """Unpack rows of a tensor, as its file has them."""
        header = self._header
        if name not in self._tensors:
            header.refuse(f"has no {name}: of a model in several files join the parts first")
        tensor = self._tensors[name]
        start = header.weights_start + tensor.offset
        raw = np.memmap(header.path, np.uint8, "r", start, (tensor.size,))
        packed = np.array(raw.reshape(*tensor.shape[1:] or (1,), -1)[rows])
        unpacked: States = dequantize(packed, GGMLQuantizationType[tensor.kind])
        return unpacked

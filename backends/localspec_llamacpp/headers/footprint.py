"""Say what a GGUF file holds and what it will need, without loading it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from localspec.backend import Footprint
from localspec_llamacpp.headers.architectures import NOT_GENERATIVE
from localspec_llamacpp.headers.caches import cache_bytes, state_bytes
from localspec_llamacpp.headers.checks import check_layers, check_sizes, check_weights
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.hyperparameters import REDO, Hyperparameters
from localspec_llamacpp.headers.layers import Layers, resolve
from localspec_llamacpp.headers.metadata import Header
from localspec_llamacpp.headers.parts import whole
from localspec_llamacpp.headers.quantisation import RECIPES, TYPES
from localspec_llamacpp.headers.vocabulary import MODEL, check_vocabulary

ARCHITECTURE = "general.architecture"
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
GUESSED = 1024  # added to a file type that a converter was not sure of
OTHER_TYPES = {
    "adapter": "a LoRA adapter",
    "mmproj": "a vision projector",
    "imatrix": "an importance matrix",
}


def inspect(path: Path) -> Footprint:
    """Read a model's headers, refusing what llama.cpp would abort on.

    A file that holds a vocabulary only has no `weight_bytes`; one cut into parts is given as its
    first, and counted whole.
    """
    header = whole(read(path))
    params = Hyperparameters(header, architecture(header))
    vocabulary = check_vocabulary(header)
    layers = None
    if header.tensors or params.has("block_count"):
        check_sizes(params)
        layers = resolve(params)
        check_layers(params, layers)
        check_weights(header)
    return footprint(params, layers, vocabulary)


def architecture(header: Header) -> str:
    kind = header.text("general.type") or "model"
    if kind in OTHER_TYPES:
        header.refuse(f"is {OTHER_TYPES[kind]}, not a model: give the model it belongs to")
    name = header.text(ARCHITECTURE)
    if name is None or not NAME.fullmatch(name):
        header.refuse(f"has {ARCHITECTURE} {name!r}, which is no architecture's name: {REDO}")
    if name in NOT_GENERATIVE:
        header.refuse(f"is a {name} model, which does not continue text: choose a language model")
    return name


def footprint(params: Hyperparameters, layers: Layers | None, vocabulary: int) -> Footprint:
    header = params.header
    return Footprint(
        path=header.path,
        architecture=params.architecture,
        name=" ".join((header.text("general.name") or header.path.stem).split()),
        quantisation=quantisation(header),
        file_bytes=header.file_bytes,
        weight_bytes=sum(tensor.size for tensor in header.tensors),
        layers=layers.count if layers else 0,
        heads=max(layers.heads, default=0) if layers else 0,
        kv_heads=max(layers.kv_heads, default=0) if layers else 0,
        embedding=params.number("embedding_length"),
        vocabulary=vocabulary,
        context=params.number("context_length"),
        kv_bytes_per_token=cache_bytes(params, layers, False) if layers else 0,
        window=layers.window if layers else 0,
        window_bytes_per_token=cache_bytes(params, layers, True) if layers else 0,
        state_bytes=state_bytes(params, layers) if layers else 0,
        tokenizer=header.text(MODEL) or "",
        chat_template=header.text("tokenizer.chat_template"),
    )


def quantisation(header: Header) -> str:
    """The recipe the file names, else the format of most of its bytes."""
    if not header.tensors:
        return "vocabulary only"
    recipe = RECIPES.get(header.number("general.file_type", GUESSED) & ~GUESSED)
    if recipe and "general.file_type" in header.values:
        return recipe
    sizes: Counter[int] = Counter()
    for tensor in header.tensors:
        sizes[tensor.kind] += tensor.size
    return TYPES[sizes.most_common(1)[0][0]].name

"""A GGUF's tensors under the names, and in the order of rows, that mlx-lm has for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from gguf.quants import dequantize
from numpy.typing import NDArray

from mlx_conversion.gguf_file import GgufFile, GgufTensor
from mlx_conversion.rotation import FACTORS
from mlx_conversion.shape import LlamaShape

Array = NDArray[np.float32]
Place = tuple[str, tuple[int, ...]]  # name in MLX, and shape

PART = 1 << 24  # numbers
# Names in a GGUF, names in MLX, and what comes out of each and goes in.
PROJECTIONS = {
    "attn_q": ("self_attn.q_proj", "queries", "width"),
    "attn_k": ("self_attn.k_proj", "keys", "width"),
    "attn_v": ("self_attn.v_proj", "keys", "width"),
    "attn_output": ("self_attn.o_proj", "width", "queries"),
    "ffn_gate": ("mlp.gate_proj", "inner", "width"),
    "ffn_up": ("mlp.up_proj", "inner", "width"),
    "ffn_down": ("mlp.down_proj", "width", "inner"),
}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


@dataclass(frozen=True, slots=True)
class Weight:
    name: str
    tensor: GgufTensor
    head_width: int = 0  # of heads whose rows llama.cpp has in another order


def plan(file: GgufFile, shape: LlamaShape) -> list[Weight]:
    """Find a place for every tensor and a tensor for every place."""
    places: dict[str, Place] = {}
    for some in all_places(shape):
        for name in sorted(some.keys() - file.tensors.keys()):
            file.refuse(f"lacks the tensor {name}")
        places |= some
    for name, tensor in file.tensors.items():
        if name not in places and name != FACTORS:
            file.refuse(f"has a tensor {name}, which {shape.architecture} has no place for in MLX")
        if name in places and tensor.shape != places[name][1]:
            expected = list(places[name][1])
            file.refuse(f"has a tensor {name} of shape {list(tensor.shape)}, not {expected}")
    turned = ("attn_q", "attn_k") if shape.architecture == "llama" else ()
    return [
        Weight(place, tensor, shape.head_width if name.split(".")[-2] in turned else 0)
        for name, (place, _) in places.items()
        for tensor in [file.tensors[name]]
    ]


def all_places(shape: LlamaShape) -> Iterator[dict[str, Place]]:
    yield model_places(shape)
    for layer in range(shape.layers):
        yield layer_places(shape, layer)


def model_places(shape: LlamaShape) -> dict[str, Place]:
    matrix = (shape.vocabulary, shape.width)
    places: dict[str, Place] = {
        "token_embd.weight": ("model.embed_tokens.weight", matrix),
        "output_norm.weight": ("model.norm.weight", (shape.width,)),
    }
    if not shape.tied:
        places["output.weight"] = "lm_head.weight", matrix
    return places


def layer_places(shape: LlamaShape, layer: int) -> dict[str, Place]:
    old, new = f"blk.{layer}", f"model.layers.{layer}"
    sizes = {
        "width": shape.width,
        "inner": shape.feed_forward,
        "queries": shape.heads * shape.head_width,
        "keys": shape.kv_heads * shape.head_width,
    }
    places: dict[str, Place] = {}
    for name, (place, rows, columns) in PROJECTIONS.items():
        places[f"{old}.{name}.weight"] = f"{new}.{place}.weight", (sizes[rows], sizes[columns])
        if name in shape.biased:
            places[f"{old}.{name}.bias"] = f"{new}.{place}.bias", (sizes[rows],)
    for name, place in NORMS.items():
        places[f"{old}.{name}.weight"] = f"{new}.{place}.weight", (shape.width,)
    for name, place in HEAD_NORMS.items() if shape.architecture == "qwen3" else ():
        places[f"{old}.{name}.weight"] = f"{new}.{place}.weight", (shape.head_width,)
    return places


def parts(file: GgufFile, weight: Weight, most: int = PART) -> Iterator[Array]:
    """Read a weight in 32 bits, about so many values at a time: whole rows, and whole heads."""
    tensor = weight.tensor
    *rows, columns = tensor.shape
    count = rows[0] if rows else 1
    step = max(1, most // columns)
    step = -(-step // weight.head_width) * weight.head_width if weight.head_width else step
    for start in range(0, count, step):
        stop = min(start + step, count)
        size = (stop - start) * tensor.row_bytes
        raw = file.read(tensor.start + start * tensor.row_bytes, size)
        values = decoded(file, tensor, raw.reshape(-1, tensor.row_bytes))
        values = values if rows else values[0]
        yield by_halves(values, weight.head_width) if weight.head_width else values


def decoded(file: GgufFile, tensor: GgufTensor, raw: NDArray[np.uint8]) -> Array:
    try:
        with np.errstate(all="ignore"):
            values: Array = dequantize(raw, tensor.kind)
    except NotImplementedError:
        file.refuse(f"has a tensor {tensor.name} of {tensor.kind.name}, which cannot be unpacked")
    return values


def by_halves(values: Array, head_width: int) -> Array:
    """Put the rows of each head, which lie pair by pair, half by half."""
    heads = values.reshape(-1, head_width // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(values.shape)

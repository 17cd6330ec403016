"""LoRA adapters of random numbers, and the same changes merged into their model's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from tests.backends.gguf_copies import ARCHITECTURE, copied, tensor

RANK, ALPHA = 4, 8.0
STRENGTH = 0.3  # of a change beside the weights it is added to
STEPS = 16  # in 1: so the first layer of a tiny model is exact whatever the order of its sums
CHANGED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
Factors = dict[str, np.ndarray]


def factors(model: Path, seed: int = 0, changed: Sequence[str] = CHANGED) -> Factors:
    """Draw the two factors of a change for matrices of every layer, by their names in a file."""
    random = np.random.default_rng(seed)
    found: Factors = {}
    for weight in GGUFReader(model).tensors:
        if weight.data.ndim == 2 and any(f".{name}.weight" in weight.name for name in changed):
            outputs, inputs = weight.data.shape
            strength = (STRENGTH * np.std(weight.data) / np.sqrt(RANK)) ** 0.5
            for part, shape in (("a", (RANK, inputs)), ("b", (outputs, RANK))):
                values = strength * random.standard_normal(shape, np.float32)
                rounded = np.round(STEPS * values) / STEPS
                found[f"{weight.name}.lora_{part}"] = rounded.astype(np.float32)
    return found


def written(
    path: Path, model: Path, tensors: Factors, keys: Mapping[str, object] | None = None
) -> Path:
    """Write an adapter for a model, with some keys replaced or, where they are None, left out."""
    architecture = GGUFReader(model).fields[ARCHITECTURE].contents()
    usual = {
        ARCHITECTURE: architecture,
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": ALPHA,
    }
    changed = usual | dict(keys or {})
    writer = GGUFWriter(path, changed.pop(ARCHITECTURE))
    for name, value in changed.items():
        if isinstance(value, list):
            writer.add_key_value(name, value, GGUFValueType.ARRAY, GGUFValueType.UINT32)
        elif value is not None:
            kind = GGUFValueType.FLOAT32 if isinstance(value, float) else None
            writer.add_key_value(name, value, kind or GGUFValueType.get_type(value))
    for name, values in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def adapter(path: Path, model: Path, seed: int = 0) -> Path:
    return written(path, model, factors(model, seed))


def merged(path: Path, model: Path, changes: Sequence[tuple[float, Factors]]) -> Path:
    """Write a copy of a model with changes added to its weights, each at a scale."""
    weights: dict[str, np.ndarray] = {}
    for scale, tensors in changes:
        for name in [name.removesuffix(".lora_a") for name in tensors if name.endswith("_a")]:
            product = tensors[f"{name}.lora_b"] @ tensors[f"{name}.lora_a"]
            before = weights[name] if name in weights else tensor(model, name)
            weights[name] = before + scale * ALPHA / RANK * product
    return copied(model, path, tensors=weights)

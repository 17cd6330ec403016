"""Write a mixture of experts that says what a dense model says, to measure what experts cost.

python scripts/mixing.py SOURCE TARGET EXPERTS USED

Each expert is a copy of the model's feed-forward part. Random routers choose among them, and the
shares of those that are used sum to one. The source is of the architecture llama or qwen2.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np

COPIED = ("ffn_gate", "ffn_up", "ffn_down")
ROUTER_SPREAD = 0.05  # of a router's weights


class Written(NamedTuple):
    """A tensor of the target, and how many copies of the data it has."""

    name: str
    data: np.ndarray
    kind: gguf.GGMLQuantizationType
    copies: int = 1


def mix(source: Path, target: Path, experts: int, used: int) -> None:
    """Write the mixture; one tensor at a time is in memory."""
    small = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    architecture = small.fields["general.architecture"].contents()
    for name, field in small.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            part = field.types[-1] if len(field.types) > 1 else None
            name = name.replace(f"{architecture}.", "llama.")
            writer.add_key_value(name, field.contents(), field.types[0], part)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(used)
    parts = list(tensors(small, architecture, experts))
    for part in parts:
        shape = (part.copies, *part.data.shape) if part.copies > 1 else part.data.shape
        raw = part.kind if part.data.dtype == np.uint8 else None
        size = part.data.nbytes * part.copies
        writer.add_tensor_info(part.name, shape, part.data.dtype, size, raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for part in parts:
        data = part.data
        writer.write_tensor_data(np.stack([data] * part.copies) if part.copies > 1 else data)
    writer.close()


def tensors(small: gguf.GGUFReader, architecture: str, experts: int) -> Iterator[Written]:
    """Yield the tensors of the mixture."""
    generator = np.random.default_rng(5)
    width = small.fields[f"{architecture}.embedding_length"].contents()
    heads = {"attn_q": "head_count", "attn_k": "head_count_kv"}
    for tensor in small.tensors:
        data, own = np.asarray(tensor.data), tensor.name.split(".")[-2]
        if architecture == "qwen2" and own in heads:
            count = small.fields[f"qwen2.attention.{heads[own]}"].contents()
            yield Written(tensor.name, paired(data, count), tensor.tensor_type)
        elif own in COPIED:
            name = tensor.name.replace(own, f"{own}_exps")
            yield Written(name, data, tensor.tensor_type, experts)
            if own == "ffn_gate":
                name = tensor.name.replace(own, "ffn_gate_inp")
                router = generator.normal(0, ROUTER_SPREAD, (experts, width)).astype(np.float32)
                yield Written(name, router, gguf.GGMLQuantizationType.F32)
        else:
            yield Written(tensor.name, data, tensor.tensor_type)


def paired(rows: np.ndarray, heads: int) -> np.ndarray:
    """Lay the numbers that qwen2 turns together, half a head apart, beside each other."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


if __name__ == "__main__":
    mix(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))

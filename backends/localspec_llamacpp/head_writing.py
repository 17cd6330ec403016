"""Write a trained EAGLE-3 head as llama.cpp's converter does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

from localspec.base.errors import UsageError
from localspec.interfaces.trained_head import TrainedHead

PACKED = 32  # numbers of a row that Q8_0 packs together
BY_PAIRS = ("attn_q", "attn_k")  # which llama.cpp rotates pair by pair


def write_head(head: TrainedHead, target: Path, out: Path) -> None:
    """Write a GGUF file with a head, its matrices in 8 bits, and its target's vocabulary."""
    with target.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UsageError(f"{target.name} is no GGUF file, whose vocabulary the head needs")
    unfinished = out.with_name(f"{out.name}.part")
    try:
        writer = GGUFWriter(unfinished, "eagle3")
        add_metadata(writer, head)
        copy_vocabulary(GGUFReader(target), writer)
        for name, tensor in head.tensors.items():
            add(writer, f"{name}.weight", laid_out(name, tensor, head.shape.head_width))
        writer.add_tensor("d2t", head.tokens)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def add_metadata(writer: GGUFWriter, head: TrainedHead) -> None:
    shape = head.shape
    writer.add_context_length(head.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_vocab_size(head.vocabulary)
    writer.add_array("eagle3.target_layers", head.layers)
    writer.add_uint32("eagle3.target_hidden_size", shape.width)


def copy_vocabulary(target: GGUFReader, writer: GGUFWriter) -> None:
    for key, field in target.fields.items():
        if key.startswith("tokenizer.") and "chat_template" not in key:
            of = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), field.types[0], of)


def laid_out(name: str, tensor: NDArray[np.float32], head_width: int) -> NDArray[np.float32]:
    """Put the rows of each head, which lie half by half, pair by pair."""
    if not name.endswith(BY_PAIRS):
        return tensor
    halves = tensor.reshape(-1, 2, head_width // 2, tensor.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(tensor.shape)


def add(writer: GGUFWriter, name: str, tensor: NDArray[np.float32]) -> None:
    packs = tensor.ndim > 1 and tensor.shape[-1] % PACKED == 0
    kind = GGMLQuantizationType.Q8_0 if packs else GGMLQuantizationType.F32
    writer.add_tensor(name, quantize(np.ascontiguousarray(tensor), kind), raw_dtype=kind)

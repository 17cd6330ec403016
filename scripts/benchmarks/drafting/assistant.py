"""A random Gemma 4, and an assistant that looks into its keys and values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.drafting.writer import (
    EACH,
    HEADS,
    LAYERS,
    SHARED,
    SOFT,
    VOCABULARY,
    WIDE,
    WIDTH,
    Array,
    ModelWriter,
    Numbers,
    embeddings,
)

NARROW, ASSISTING = 256, 4  # the width and the layers of the assistant
COMMON: Numbers = {
    "attention.key_length_swa": EACH,
    "attention.value_length_swa": EACH,
    "attention.sliding_window": 512,
}
TARGET: Numbers = {
    **COMMON,
    "embedding_length_per_layer_input": 0,
    "attention.sliding_window_pattern": [1, 1, 1, 1, 0] * 2,
}
ASSISTANT: Numbers = {
    **COMMON,
    "attention.sliding_window_pattern": [1, 1, 1, 0],
    "attention.shared_kv_layers": ASSISTING,
    "embedding_length": NARROW,
    "embedding_length_out": WIDTH,
    "nextn_predict_layers": ASSISTING,
}


def write_target(path: Path) -> Array:
    """Write a model; return its output matrix."""
    file = ModelWriter(path, "gemma4", LAYERS, TARGET)
    file.add("token_embd.weight", embeddings() * np.float32(WIDTH**-0.5))  # which it multiplies
    for at in range(LAYERS):
        name = f"blk.{at}"
        write_block(file, name, WIDTH)
        for part in "kv":
            file.matrix(f"{name}.attn_{part}", WIDTH, SHARED * EACH)
        file.norms(f"{name}.attn_k_norm", width=EACH)
    file.norms("rope_freqs", width=EACH // 2)
    file.norms("output_norm")
    output = file.matrix("output", WIDTH, VOCABULARY, 4.0)
    file.close()
    return output


def write_head(path: Path, output: Array) -> None:
    """Write an assistant that knows a part of what its target does."""
    file = ModelWriter(path, "gemma4-assistant", ASSISTING, ASSISTANT)
    passed = np.eye(NARROW, 2 * WIDTH, dtype=np.float32)
    file.add("token_embd.weight", output[:, :NARROW])
    file.add("nextn.pre_projection.weight", passed)
    file.matrix("nextn.post_projection", NARROW, WIDTH)
    for at in range(ASSISTING):
        write_block(file, f"blk.{at}", NARROW)
    file.norms("rope_freqs", width=EACH // 2)
    file.norms("output_norm", width=NARROW)
    file.close()


def write_block(file: ModelWriter, name: str, width: int) -> None:
    """Write what layers of both have; the assistant's have no keys and values."""
    file.norms(f"{name}.attn_norm", f"{name}.ffn_norm", width=width)
    file.norms(f"{name}.attn_q_norm", width=EACH)
    file.matrix(f"{name}.attn_q", width, HEADS * EACH)
    file.matrix(f"{name}.attn_output", HEADS * EACH, width)
    for norm in ("post_attention_norm", "post_ffw_norm"):
        file.add(f"{name}.{norm}.weight", np.full(width, SOFT, np.float32))
    file.matrix(f"{name}.ffn_gate", width, WIDE)
    file.matrix(f"{name}.ffn_up", width, WIDE)
    file.matrix(f"{name}.ffn_down", WIDE, width)
    file.add(f"{name}.layer_output_scale.weight", np.ones(1, np.float32))

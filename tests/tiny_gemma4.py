"""A tiny Gemma 4, and an assistant that drafts for it by looking into its keys and values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader

from tests.tiny import (
    ATTENTION,
    FEED_FORWARD,
    FOCUS,
    HEAD_WIDTH,
    HEADS,
    WIDTH,
    WINDOW,
    Architecture,
    Weights,
    described,
    finish,
)
from tests.tiny_vocabulary import vocabulary

NARROW = 2 * WIDTH  # of the assistant; llama.cpp tells one by another width than its target's
SCALED = HEAD_WIDTH**-0.5  # Gemma 4 does not scale what attention multiplies
_METADATA = {
    **ATTENTION,
    "attention.key_length_swa": HEAD_WIDTH,
    "attention.value_length_swa": HEAD_WIDTH,
    "attention.sliding_window": WINDOW,
    "embedding_length_per_layer_input": 0,
}
TARGET = Architecture((), {**_METADATA, "attention.sliding_window_pattern": [1, 1, 0]})
ASSISTANT = Architecture(
    (),
    {
        **_METADATA,
        "attention.sliding_window_pattern": [1, 0],
        "attention.shared_kv_layers": 2,
        "embedding_length_out": WIDTH,
        "nextn_predict_layers": 2,
    },
)


def _block(weights: Weights, block: str, width: int, gain: float) -> None:
    """Write what layers of both have; the assistant's have no keys and values."""
    weights.norm(f"{block}.attn_norm", width)
    weights.matrix(f"{block}.attn_q", width, HEADS * HEAD_WIDTH)
    weights.norm(f"{block}.attn_q_norm", HEAD_WIDTH)
    weights.matrix(f"{block}.attn_output", HEADS * HEAD_WIDTH, width)
    weights.norm(f"{block}.post_attention_norm", width, gain)
    weights.norm(f"{block}.ffn_norm", width)
    weights.matrix(f"{block}.ffn_gate", width, FEED_FORWARD)
    weights.matrix(f"{block}.ffn_up", width, FEED_FORWARD)
    weights.matrix(f"{block}.ffn_down", FEED_FORWARD, width)
    weights.norm(f"{block}.post_ffw_norm", width, gain)
    weights.add(f"{block}.layer_output_scale.weight", np.ones(1))


def write_target(path: Path, gain: float = 0.3) -> Path:
    words = vocabulary()
    count = len(words.tokens)
    writer = described(path, "gemma4", _with_blocks(TARGET, 3), words)
    weights = Weights(writer, 1)
    signs = np.sign(weights.normal(count, WIDTH))
    weights.add("token_embd.weight", signs * WIDTH**-0.5)  # Gemma multiplies by the root
    for index in range(3):
        block = f"blk.{index}"
        _block(weights, block, WIDTH, gain)
        weights.matrix(f"{block}.attn_k", WIDTH, HEAD_WIDTH)
        weights.matrix(f"{block}.attn_v", WIDTH, HEAD_WIDTH)
        weights.norm(f"{block}.attn_k_norm", HEAD_WIDTH, FOCUS * SCALED)
    weights.add("rope_freqs.weight", np.ones(HEAD_WIDTH // 2))
    weights.norm("output_norm")
    weights.matrix("output", WIDTH, count, 4.0)
    finish(writer)
    return path


def write_assistant(path: Path, target: Path, gain: float = 0.3) -> Path:
    """Write a head whose first tokens are often the target's, as it passes embeddings on."""
    words = vocabulary()
    held = {tensor.name: tensor.data for tensor in GGUFReader(target).tensors}
    writer = described(path, "gemma4-assistant", _with_blocks(ASSISTANT, 2), words, NARROW)
    weights = Weights(writer, 2)
    output = held["output.weight"]
    noise = 0.3 * output.std() * weights.normal(len(output), WIDTH)
    weights.add("token_embd.weight", np.concatenate((output, noise), axis=1))
    passed, mixed = np.eye(2 * WIDTH), 0.3 * WIDTH**-0.5 * weights.normal(NARROW, 2 * WIDTH)
    weights.add("nextn.pre_projection.weight", passed + mixed)
    weights.matrix("nextn.post_projection", NARROW, WIDTH)
    for index in range(2):
        _block(weights, f"blk.{index}", NARROW, gain)
    weights.add("rope_freqs.weight", np.ones(HEAD_WIDTH // 2))
    weights.norm("output_norm", NARROW)
    finish(writer)
    return path


def _with_blocks(shape: Architecture, count: int) -> Architecture:
    return Architecture((lambda *_: None,) * count, shape.metadata)

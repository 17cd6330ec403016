"""A tiny random BERT as a GGUF file, and its arithmetic in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFWriter

from tests.tiny import finish

WIDTH, HEADS, LAYERS, FEED_FORWARD, CONTEXT = 64, 2, 2, 96, 512
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ("the", "code", "is", "of", "sea", "return", "on", "this", "side", "not")
TOKENS = (*MARKS, *(f"▁{letter}" for letter in LETTERS), *LETTERS, *(f"▁{w}" for w in WORDS))
CLS, SEP = TOKENS.index("[CLS]"), TOKENS.index("[SEP]")
NORMAL, CONTROL = 1, 3  # token types as GGUF numbers them
EPSILON = 1e-12
POOLINGS = {"mean": 1, "cls": 2, "last": 3, "rank": 4}


def write(path: Path, pooling: str, *, classes: int = 1, seed: int = 0) -> Path:
    """Write a model that pools in a way; one that ranks has a classifier."""
    random = np.random.default_rng(seed)
    writer = GGUFWriter(path, "bert")
    described(writer, pooling, classes)

    def add(name: str, *shape: int, scale: float = 1.0, base: float = 0.0) -> None:
        values = base + scale * random.standard_normal(shape)
        writer.add_tensor(name, values.astype(np.float32))

    def norm(name: str) -> None:
        add(f"{name}.weight", WIDTH, scale=0.1, base=1.0)
        add(f"{name}.bias", WIDTH, scale=0.1)

    def dense(name: str, inputs: int, outputs: int, gain: float = 1.0) -> None:
        add(f"{name}.weight", outputs, inputs, scale=gain * inputs**-0.5)
        add(f"{name}.bias", outputs, scale=0.1)

    add("token_embd.weight", len(TOKENS), WIDTH)
    add("token_types.weight", 2, WIDTH, scale=0.2)
    add("position_embd.weight", CONTEXT, WIDTH, scale=0.5)
    norm("token_embd_norm")
    for at in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            dense(f"blk.{at}.{name}", WIDTH, WIDTH, 2.0 if name in ("attn_q", "attn_k") else 1.0)
        norm(f"blk.{at}.attn_output_norm")
        dense(f"blk.{at}.ffn_up", WIDTH, FEED_FORWARD)
        dense(f"blk.{at}.ffn_down", FEED_FORWARD, WIDTH)
        norm(f"blk.{at}.layer_output_norm")
    if pooling == "rank":
        dense("cls", WIDTH, WIDTH)
        dense("cls.output", WIDTH, classes, 2.0)
    finish(writer)
    return path


def described(writer: GGUFWriter, pooling: str, classes: int) -> None:
    writer.add_name(f"tiny bert {pooling}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(EPSILON)
    writer.add_causal_attention(False)
    writer.add_uint32("bert.pooling_type", POOLINGS[pooling])
    if pooling == "rank":
        writer.add_array("bert.classifier.output_labels", [f"label {n}" for n in range(classes)])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(2)
    writer.add_token_list(TOKENS)
    writer.add_token_types([CONTROL if token in MARKS else NORMAL for token in TOKENS])
    writer.add_bos_token_id(CLS)
    writer.add_eos_token_id(SEP)
    writer.add_sep_token_id(SEP)
    writer.add_unk_token_id(TOKENS.index("[UNK]"))
    writer.add_pad_token_id(TOKENS.index("[PAD]"))
    writer.add_mask_token_id(TOKENS.index("[MASK]"))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_sep_token(False)


class Arithmetic:
    """What the papers say that a BERT computes, in 64 bits."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self._tensors = {t.name: np.array(t.data, np.float64) for t in reader.tensors}

    def states(self, tokens):
        held = self._tensors
        x = held["token_embd.weight"][tokens] + held["token_types.weight"][0]
        x = self._norm("token_embd_norm", x + held["position_embd.weight"][: len(tokens)])
        for at in range(LAYERS):
            x = self._norm(f"blk.{at}.attn_output_norm", x + self._attention(f"blk.{at}", x))
            inner = gelu(self._dense(f"blk.{at}.ffn_up", x))
            outer = x + self._dense(f"blk.{at}.ffn_down", inner)
            x = self._norm(f"blk.{at}.layer_output_norm", outer)
        return x

    def pooled(self, tokens, pooling):
        states = self.states(tokens)
        if pooling == "mean":
            return states.mean(axis=0)
        if pooling == "rank":
            return self._dense("cls.output", np.tanh(self._dense("cls", states[0])))
        return states[0 if pooling == "cls" else -1]

    def _attention(self, block, x):
        width = WIDTH // HEADS
        parts = (self._dense(f"{block}.attn_{part}", x) for part in "qkv")
        q, k, v = (part.reshape(len(x), HEADS, width).swapaxes(0, 1) for part in parts)
        scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(width))
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ v
        return self._dense(f"{block}.attn_output", mixed.swapaxes(0, 1).reshape(len(x), WIDTH))

    def _dense(self, name, x):
        return x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _norm(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

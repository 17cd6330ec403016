"""Writes GGUF files of random weights in 8 bits.

Layers add little to embeddings, so that a token follows from the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

Array = NDArray[np.float32]
Numbers = Mapping[str, int | list[int]]
Q8 = GGMLQuantizationType.Q8_0
VOCABULARY, WIDTH, LAYERS, WIDE = 32768, 768, 10, 2048
HEADS, SHARED, EACH = 12, 4, 64  # of queries; of keys and values; numbers of each
MASK = 1  # the token that stands for one to be found
SOFT = 0.02  # of an embedding, that a layer adds


def embeddings() -> Array:
    values = np.random.default_rng(3).standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
    return np.sign(values)


class ModelWriter:
    """Writes a file with random tensors."""

    def __init__(self, path: Path, architecture: str, layers: int, more: Numbers) -> None:
        self._file = GGUFWriter(path, architecture)
        self._random = np.random.default_rng(7)
        numbers: dict[str, int | list[int]] = {
            "block_count": layers,
            "context_length": 8192,
            "embedding_length": WIDTH,
            "feed_forward_length": WIDE,
            "attention.head_count": HEADS,
            "attention.head_count_kv": SHARED,
            "attention.key_length": EACH,
            "attention.value_length": EACH,
            "rope.dimension_count": EACH,
        }
        for name, value in {**numbers, **more}.items():
            if isinstance(value, list):
                self._file.add_array(f"{architecture}.{name}", value)
            else:
                self._file.add_uint32(f"{architecture}.{name}", value)
        self._file.add_layer_norm_rms_eps(1e-6)
        self._describe_tokens()

    def _describe_tokens(self) -> None:
        self._file.add_tokenizer_model("gpt2")
        self._file.add_tokenizer_pre("qwen2")
        self._file.add_token_list([f"<{at}>" for at in range(VOCABULARY)])
        self._file.add_token_types([1] * VOCABULARY)
        self._file.add_token_merges(["< 0"])
        self._file.add_eos_token_id(0)
        self._file.add_add_bos_token(False)
        self._file.add_mask_token_id(MASK)

    def normal(self, *shape: int) -> Array:
        return self._random.standard_normal(shape, dtype=np.float32)

    def add(self, name: str, values: Array) -> None:
        if values.ndim == 1:
            self._file.add_tensor(name, values)
        else:
            self._file.add_tensor(name, quantize(values, Q8), raw_dtype=Q8)

    def table(self, name: str, numbers: NDArray[np.int64]) -> None:
        self._file.add_tensor(name, numbers)

    def matrix(self, name: str, inputs: int, outputs: int, gain: float = 1.0) -> Array:
        values: Array = self.normal(outputs, inputs) * np.float32(gain * inputs**-0.5)
        self.add(f"{name}.weight", values)
        return values

    def norms(self, *names: str, width: int = WIDTH) -> None:
        for name in names:
            self.add(f"{name}.weight", np.ones(width, np.float32))

    def block(self, at: int) -> None:
        """Write a layer as Qwen3's are."""
        name = f"blk.{at}"
        self.norms(f"{name}.attn_norm", f"{name}.ffn_norm")
        self.norms(f"{name}.attn_q_norm", f"{name}.attn_k_norm", width=EACH)
        self.matrix(f"{name}.attn_q", WIDTH, HEADS * EACH)
        for part in "kv":
            self.matrix(f"{name}.attn_{part}", WIDTH, SHARED * EACH)
        self.matrix(f"{name}.attn_output", HEADS * EACH, WIDTH, SOFT)
        self.feed_forward(name)

    def feed_forward(self, name: str) -> None:
        self.matrix(f"{name}.ffn_gate", WIDTH, WIDE)
        self.matrix(f"{name}.ffn_up", WIDTH, WIDE)
        self.matrix(f"{name}.ffn_down", WIDE, WIDTH, SOFT)

    def drafting_block(self, at: int) -> None:
        """Write an MTP block, which passes embeddings on."""
        self.block(at)
        passed = np.concatenate((np.eye(WIDTH), SOFT * self.normal(WIDTH, WIDTH)), axis=1)
        self.add(f"blk.{at}.nextn.eh_proj.weight", passed.astype(np.float32))
        self.norms(f"blk.{at}.nextn.enorm", f"blk.{at}.nextn.hnorm")

    def close(self) -> None:
        self._file.write_header_to_file()
        self._file.write_kv_data_to_file()
        self._file.write_tensors_to_file()
        self._file.close()

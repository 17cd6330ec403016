"""Models with random weights in 8 bits, and drafting heads of each kind for them.

Layers add little to embeddings, so that a token follows from the one before: MTP and EAGLE-3
heads, which pass embeddings on, are often right. DFlash heads draft noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

Array = NDArray[np.float32]
KINDS = ("mtp", "mtp alone", "eagle3", "dflash")  # inside, and in files of their own
Numbers = Mapping[str, int | list[int]]
Q8 = GGMLQuantizationType.Q8_0
VOCABULARY, WIDTH, LAYERS, WIDE = 32768, 768, 10, 2048
HEADS, SHARED, EACH = 12, 4, 64  # of queries; of keys and values; numbers of each
DRAFTED, BLOCK, MASK = 8192, 8, 1  # tokens that EAGLE-3 can draft; of DFlash
SOFT = 0.02  # of an embedding, that a layer adds
READ = [2, 5, 8]  # layers, by EAGLE-3 and DFlash
EAGLE3: Numbers = {
    "target_hidden_size": WIDTH,
    "target_layers": READ,
    "attention.head_count_kv": HEADS,
}
DFLASH: Numbers = {"block_size": BLOCK, "target_layers": READ}
MTP: Numbers = {"nextn_predict_layers": 1, "expert_feed_forward_length": WIDE}


def write(kind: str, folder: Path) -> tuple[Path, Path]:
    """Write a model and a head of one of the kinds, which may be the same file."""
    target, head = folder / f"{kind}-target.gguf", folder / f"{kind}-head.gguf"
    inside = kind.startswith("mtp")
    output = write_target(target, "hy_v3" if inside else "qwen3", inside=kind == "mtp")
    if kind == "mtp":
        return target, target
    if inside:
        file = ModelWriter(head, "hy_v3", LAYERS + 1, MTP)
        file.drafting_block(LAYERS)
        file.add("token_embd.weight", embeddings())
        file.norms("output_norm")
        file.add("output.weight", output)
        file.close()
    else:
        write_eagle3(head, output) if kind == "eagle3" else write_dflash(head)
    return target, head


def write_target(path: Path, architecture: str, *, inside: bool) -> Array:
    """Write a model, with a head inside if wished; return its output matrix."""
    more = {**MTP, "nextn_predict_layers": int(inside)} if architecture == "hy_v3" else {}
    file = ModelWriter(path, architecture, LAYERS + inside, more)
    file.add("token_embd.weight", embeddings())
    for at in range(LAYERS):
        file.block(at)
    if inside:
        file.drafting_block(LAYERS)
    file.norms("output_norm")
    output = file.matrix("output", WIDTH, VOCABULARY, 4.0)
    file.close()
    return output


def embeddings() -> Array:
    values = np.random.default_rng(3).standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
    return np.sign(values)


def write_eagle3(path: Path, output: Array) -> None:
    """Write a layer that attends to the newest token most, and passes its embedding on."""
    file = ModelWriter(path, "eagle3", 1, EAGLE3)
    file.matrix("fc", len(READ) * WIDTH, WIDTH, SOFT)
    file.norms("output_norm", "blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm")
    nothing, passed = np.zeros((WIDTH, WIDTH), np.float32), np.eye(WIDTH, dtype=np.float32)
    looking = file.normal(WIDTH, WIDTH) * 1.5 * WIDTH**-0.5
    for name, values in {"q": looking, "k": looking, "v": passed}.items():
        file.add(f"blk.0.attn_{name}.weight", np.concatenate((values, nothing), axis=1))
    file.add("blk.0.attn_output.weight", passed)
    file.feed_forward("blk.0")
    drafted = np.arange(0, VOCABULARY, VOCABULARY // DRAFTED)
    file.table("d2t", drafted)
    file.add("output.weight", output[drafted])
    file.close()


def write_dflash(path: Path) -> None:
    file = ModelWriter(path, "dflash", 2, DFLASH)
    file.matrix("fc", len(READ) * WIDTH, WIDTH)
    file.norms("output_norm", "enc.output_norm")
    for at in range(2):
        file.block(at)
    file.close()


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

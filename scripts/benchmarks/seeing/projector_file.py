"""A projector of random weights and of a real one's size, for a model of any width and tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter

WIDTH, HEADS, WIDE, LAYERS = 768, 12, 3072, 12  # of ViT-B
PATCH, SIDE = 14, 224  # pixels
MERGED = 2  # patches of a side that become one position of a text
PER_PICTURE = (SIDE // PATCH // MERGED) ** 2  # positions, of a square picture of that side
SMALL = 0.02


def write(path: Path, width: int) -> Path:
    """Write a projector as InternVL has it, whose pictures stand between texts, not new tokens."""
    file = GGUFWriter(path, "clip")
    file.add_type("mmproj")
    file.add_bool("clip.has_vision_encoder", True)
    file.add_string("clip.projector_type", "internvl")
    file.add_bool("clip.use_gelu", True)
    numbers = {
        "image_size": SIDE,
        "patch_size": PATCH,
        "embedding_length": WIDTH,
        "feed_forward_length": WIDE,
        "block_count": LAYERS,
        "attention.head_count": HEADS,
        "projection_dim": width,
        "projector.scale_factor": MERGED,
    }
    for name, number in numbers.items():
        file.add_uint32(f"clip.vision.{name}", number)
    file.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    for name in ("mean", "std"):
        file.add_array(f"clip.vision.image_{name}", [0.5, 0.5, 0.5])
    TensorWriter(file).write(width)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


class TensorWriter:
    def __init__(self, file: GGUFWriter) -> None:
        self._file = file
        self._random = np.random.default_rng(7)

    def write(self, width: int) -> None:
        positions = (SIDE // PATCH) ** 2 + 1
        self._add("v.patch_embd.weight", np.float16, WIDTH, 3, PATCH, PATCH)
        self._add("v.patch_embd.bias", np.float32, WIDTH)
        self._add("v.class_embd", np.float32, WIDTH)
        self._add("v.position_embd.weight", np.float32, positions, WIDTH)
        for at in range(LAYERS):
            for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
                self._matrix(f"v.blk.{at}.{name}", WIDTH, WIDTH)
            self._matrix(f"v.blk.{at}.ffn_up", WIDTH, WIDE)
            self._matrix(f"v.blk.{at}.ffn_down", WIDE, WIDTH)
            for name in ("ln1", "ln2"):
                self._norm(f"v.blk.{at}.{name}", WIDTH)
        merged = WIDTH * MERGED**2
        self._norm("mm.model.mlp.0", merged)
        self._matrix("mm.model.mlp.1", merged, width)
        self._matrix("mm.model.mlp.3", width, width)

    def _matrix(self, name: str, inputs: int, outputs: int) -> None:
        self._add(f"{name}.weight", np.float16, outputs, inputs)
        self._add(f"{name}.bias", np.float32, outputs)

    def _norm(self, name: str, width: int) -> None:
        self._file.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        self._file.add_tensor(f"{name}.bias", np.zeros(width, np.float32))

    def _add(self, name: str, kind: type[np.generic], *shape: int) -> None:
        values = self._random.standard_normal(shape, np.float32) * SMALL
        self._file.add_tensor(name, values.astype(kind))

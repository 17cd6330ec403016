"""Tiny models that see: a language model of `tests.tiny`, and a projector of random weights.

Each projector is of another kind, by how its pictures stand in a text: `qwen3vl` gives the
positions of a picture three axes, `gemma3` lets them see each other whatever their order, `llama`
cuts pictures into tiles, `lfm2` has recurrent layers, and `qwen35` has such layers and axes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from tests.tiny import WIDTH, Weights, finish, write
from tests.tiny_vocabulary import Layout

SEEN = 32  # numbers of a state of the projector's layers
SEEN_HEADS = 2
SEEN_FEED_FORWARD = 48
LAYERS = 2
PATCH = 4  # pixels of a side; four patches make one position
SIDE = 32  # pixels of a picture that is seen as a square
GAIN = 3.0  # of the last matrix: embeddings of tokens are of plus and minus one

Write = Callable[[Weights, int], None]


def _matrix(weights: Weights, name: str, inputs: int, outputs: int, gain: float = 1.0) -> None:
    weights.matrix(name, inputs, outputs, gain)
    weights.add(f"{name}.bias", 0.1 * weights.normal(outputs))


def _norm(weights: Weights, name: str, width: int) -> None:
    weights.norm(name, width)
    weights.add(f"{name}.bias", np.zeros(width))


def _layers(weights: Weights) -> None:
    for at in range(LAYERS):
        block = f"v.blk.{at}"
        for name in ("q", "k", "v", "out"):
            _matrix(weights, f"{block}.attn_{name}", SEEN, SEEN)
        _norm(weights, f"{block}.ln1", SEEN)
        _norm(weights, f"{block}.ln2", SEEN)
        _matrix(weights, f"{block}.ffn_up", SEEN, SEEN_FEED_FORWARD)
        _matrix(weights, f"{block}.ffn_down", SEEN_FEED_FORWARD, SEEN)
    _norm(weights, "v.post_ln", SEEN)


def _patches(weights: Weights, name: str = "v.patch_embd.weight") -> None:
    weights.add(name, weights.normal(SEEN, 3, PATCH, PATCH) * PATCH**-1)


def _siglip(weights: Weights) -> None:
    _patches(weights)
    weights.add("v.patch_embd.bias", 0.1 * weights.normal(SEEN))
    weights.add("v.position_embd.weight", 0.5 * weights.normal((SIDE // PATCH) ** 2, SEEN))
    _layers(weights)


def _merger(weights: Weights, width: int) -> None:
    _matrix(weights, "mm.0", 4 * SEEN, 4 * SEEN)
    _matrix(weights, "mm.2", 4 * SEEN, width, GAIN)


def _qwen2vl(weights: Weights, width: int) -> None:
    _patches(weights)
    _patches(weights, "v.patch_embd.weight.1")
    _layers(weights)
    _merger(weights, width)


def _gemma3(weights: Weights, width: int) -> None:
    _siglip(weights)
    weights.norm("mm.soft_emb_norm", SEEN)
    weights.add("mm.input_projection.weight", weights.normal(SEEN, width) * GAIN * SEEN**-0.5)


def _internvl(weights: Weights, width: int) -> None:
    _patches(weights)
    weights.add("v.class_embd", weights.normal(SEEN))
    weights.add("v.position_embd.weight", 0.5 * weights.normal((SIDE // PATCH) ** 2 + 1, SEEN))
    _layers(weights)
    _norm(weights, "mm.model.mlp.0", 4 * SEEN)
    _matrix(weights, "mm.model.mlp.1", 4 * SEEN, 4 * SEEN)
    _matrix(weights, "mm.model.mlp.3", 4 * SEEN, width, GAIN)


def _lfm2(weights: Weights, width: int) -> None:
    _siglip(weights)
    _matrix(weights, "mm.1", 4 * SEEN, 4 * SEEN)
    _matrix(weights, "mm.2", 4 * SEEN, width, GAIN)


def _idefics3(weights: Weights, width: int) -> None:
    _siglip(weights)
    weights.matrix("mm.model.fc", 4 * SEEN, width, GAIN)


def _hunyuanvl(weights: Weights, width: int) -> None:
    _siglip(weights)
    for name, inputs, outputs, side in (("0", SEEN, 2 * SEEN, 2), ("2", 2 * SEEN, 4 * SEEN, 1)):
        weights.add(f"mm.{name}.weight", weights.normal(outputs, inputs, side, side))
        weights.add(f"mm.{name}.bias", weights.normal(outputs))
    _matrix(weights, "mm.model.fc", 4 * SEEN, width)
    weights.norm("mm.pre_norm", SEEN)
    weights.norm("mm.post_norm", width)
    for name in ("begin", "end"):
        weights.add(f"mm.image_{name}", weights.normal(width))
    weights.add("v.image_newline", weights.normal(4 * SEEN))


@dataclass(frozen=True, slots=True)
class Sighted:
    """A model that sees: its language model in `tests.tiny`, and its projector."""

    projector: str  # by llama.cpp's name
    write: Write
    merge: str = "clip.vision.projector.scale_factor"  # the key of the patches of a side in one


SIGHTED: Mapping[str, Sighted] = {
    "qwen3vl": Sighted("qwen2vl_merger", _qwen2vl, "clip.vision.spatial_merge_size"),
    "gemma3": Sighted("gemma3", _gemma3),
    "lfm2": Sighted("lfm2", _lfm2),
    "qwen35": Sighted("qwen2vl_merger", _qwen2vl, "clip.vision.spatial_merge_size"),
    "qwen35-mtp": Sighted("qwen2vl_merger", _qwen2vl, "clip.vision.spatial_merge_size"),
    "llama": Sighted("internvl", _internvl),
}


# Projectors that cannot be used: one whose model has other tokens, and one that numbers pictures.
OTHERS: Mapping[str, Sighted] = {
    "idefics3": Sighted("idefics3", _idefics3),
    "hunyuanvl": Sighted("hunyuanvl", _hunyuanvl, "clip.vision.spatial_merge_size"),
}


def write_sighted(
    folder: Path, architecture: str, *, seed: int = 0, layout: Layout = "plain"
) -> tuple[Path, Path]:
    """Write a language model and its projector; return their paths."""
    model = write(folder / f"{architecture}.gguf", architecture, seed=seed, layout=layout)
    return model, write_projector(folder / f"mmproj-{architecture}.gguf", architecture, seed=seed)


def write_projector(path: Path, architecture: str, *, seed: int = 0, width: int = WIDTH) -> Path:
    kind = {**SIGHTED, **OTHERS}[architecture]
    writer = GGUFWriter(path, "clip")
    writer.add_name(f"tiny projector for {architecture}")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", kind.projector)
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "embedding_length": SEEN,
        "feed_forward_length": SEEN_FEED_FORWARD,
        "block_count": LAYERS,
        "projection_dim": width,
        "attention.head_count": SEEN_HEADS,
        "image_size": SIDE,
        "patch_size": PATCH,
    }
    for key, value in numbers.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_uint32(kind.merge, 2)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)
    kind.write(Weights(writer, seed + 7), width)
    finish(writer)
    return path


def picture(seed: int = 0, width: int = 48, height: int = 32) -> bytes:
    """Return a file of a picture in random colours, which are smooth enough to survive scaling."""
    colours = np.random.default_rng(seed).integers(0, 256, (-(-height // 8), -(-width // 8), 3))
    pixels = colours.repeat(8, 0).repeat(8, 1)[:height, :width].astype(np.uint8)
    return bitmap_file(pixels)


def bitmap_file(pixels: np.ndarray) -> bytes:
    """Write pixels as a BMP file: rows from below, in blue, green and red."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, -(-3 * width // 4) * 4), np.uint8)
    rows[:, : 3 * width] = pixels[::-1, :, ::-1].reshape(height, 3 * width)
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, rows.size, 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + rows.size, 0, 0, 54) + head + rows.tobytes()

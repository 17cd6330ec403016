"""Tiny MLX folders of models that see: a text model of `tests.tiny_mlx` with a tower beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from localspec_mlx.folder.pictures import picture_settings
from localspec_mlx.towers.loading import MAKERS
from tests import tiny_mlx
from tests.tiny_vocabulary import vocabulary

GAIN = 8.0  # of the last matrix: what is embedded is multiplied by the root of the width, 8
BEFORE, AFTER = (vocabulary().id_of(f"[unused{at}]") for at in range(2))
LAYERS = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 4,
}

_GEMMA4: Mapping[str, Any] = {
    "vision_config": {
        **LAYERS,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "model_type": "gemma4_vision",
        "pooling_kernel_size": 2,
        "position_embedding_size": 64,
        "standardize": True,
    },
    "boi_token_id": BEFORE,
    "eoi_token_id": AFTER,
}
# The settings of each model, beside those of its text; pictures take up to 16 positions.
SIGHTED: Mapping[str, Mapping[str, Any]] = {
    "gemma3": {
        "vision_config": {**LAYERS, "image_size": 32, "vision_use_head": False},
        "mm_tokens_per_image": 16,
        "boi_token_index": BEFORE,
        "eoi_token_index": AFTER,
    },
    "gemma4": _GEMMA4,  # whose windows see pictures both ways
    "gemma4-small": _GEMMA4,  # that has embeddings for each layer
}
TEXTS: Mapping[str, Mapping[str, Any]] = {
    "gemma3": {},
    "gemma4": {"use_bidirectional_attention": "vision"},
    "gemma4-small": {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 384},
}
PROCESSORS: Mapping[str, Mapping[str, Any]] = {
    "gemma3": {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2},
    "gemma4": {"image_processor": {"max_soft_tokens": 16, "do_normalize": False}},
}


def write(folder: Path, name: str, *, seed: int = 0, **changes: Any) -> Path:
    """Write a model that sees as conversions leave it; `changes` are of its text."""
    family = name.partition("-")[0]
    tiny_mlx.write(folder, f"{family}_text", seed=seed, **{**TEXTS[name], **changes})
    text = json.loads((folder / "config.json").read_text())
    config = {"model_type": family, "vocab_size": text["vocab_size"], "text_config": text}
    (folder / "config.json").write_text(json.dumps({**config, **SIGHTED[name]}))
    processor = "preprocessor_config.json" if family == "gemma3" else "processor_config.json"
    (folder / processor).write_text(json.dumps(PROCESSORS[family]))
    weights = {f"language_model.{name}": array for name, array in tensors(folder).items()}
    save(folder, weights | tower_weights(folder, seed))
    return folder


def tensors(folder: Path) -> dict[str, mx.array]:
    """Read all tensors of a folder, so that its file can be written anew."""
    loaded: Any = mx.load(str(folder / "model.safetensors"))
    mx.eval(loaded)
    return loaded


def save(folder: Path, weights: Mapping[str, mx.array]) -> None:
    mx.save_safetensors(str(folder / "model.safetensors"), dict(weights), {"format": "mlx"})


def tower_weights(folder: Path, seed: int = 0) -> dict[str, mx.array]:
    """Draw the tensors of a tower by the names and shapes that its layers have."""
    settings = picture_settings(folder)
    random = np.random.default_rng([seed, 11])
    weights = {}
    for name, array in tree_flatten(MAKERS[settings.model_type](settings).parameters()):
        gain = GAIN if "projection" in name and name.startswith(("multi", "embed")) else 1.0
        weights[name] = mx.array(gain * tiny_mlx.weight(random, name, array.shape))
    return weights

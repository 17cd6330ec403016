"""Write a trained EAGLE-3 head as SpecForge does, in a folder of its own; needs no MLX."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localspec.interfaces.trained_head import PUBLISHED_NAMES, TrainedHead

Array = NDArray[np.generic]

KINDS = {"float16": "F16", "int64": "I64", "bool": "BOOL"}


def write_head(head: TrainedHead, _: Path, out: Path) -> None:
    """Write a folder with a head, in 16 bits."""
    unfinished = out.with_name(f"{out.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    arrays: dict[str, Array] = {
        f"{PUBLISHED_NAMES[name]}.weight": tensor.astype(np.float16)
        for name, tensor in head.tensors.items()
    }
    arrays["d2t"] = head.tokens - np.arange(len(head.tokens))
    arrays["t2d"] = np.isin(np.arange(head.vocabulary), head.tokens)
    write_safetensors(unfinished / "model.safetensors", arrays)
    (unfinished / "config.json").write_text(json.dumps(config(head), indent=2), encoding="utf-8")
    unfinished.replace(out)


def config(head: TrainedHead) -> dict[str, object]:
    shape = head.shape
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.rope_base,
        "max_position_embeddings": head.context,
        "vocab_size": head.vocabulary,
        "draft_vocab_size": len(head.tokens),
        "target_hidden_size": shape.width,
        "eagle_aux_hidden_state_layer_ids": list(head.layers),
        "tie_word_embeddings": False,
        "attention_bias": False,
        "torch_dtype": "float16",
    }


def write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    about: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        kind = KINDS[array.dtype.name]
        about[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (start, end)}
    header = json.dumps(about).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())

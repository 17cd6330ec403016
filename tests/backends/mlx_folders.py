"""MLX folders for tests: every kind of cache, changed weights, and headers without weights."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes as get_classes
from mlx_lm.utils import load_model

from localspec.base.errors import ModelFileError
from localspec_mlx.folder.footprint import inspect
from tests import tiny_mlx

LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 2,
}
# Kinds of caches that no tiny model of the other tests has.
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "deepseek_v3": LATENT,
    "deepseek_v32": {**LATENT, "index_n_heads": 2, "index_head_dim": 32, "index_topk": 8},
    "dbrx": {
        "d_model": 64,
        "n_layers": 3,
        "n_heads": 2,
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 1, "clip_qkv": 8, "rope_theta": 10000.0},
    },
    "rwkv7": {
        "norm_eps": 1e-6,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "recurrent_gemma": {
        "attention_bias": False,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "attention_window_size": 16,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
}
CHUNKED = {
    **tiny_mlx._SHARED,
    "model_type": "llama4_text",
    "vocab_size": 384,
    "intermediate_size_mlp": 96,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
    "attention_bias": False,
    "attention_chunk_size": 16,
    "use_qk_norm": True,
    "rope_scaling": None,
    "num_hidden_layers": 4,
}
COMPRESSING = {
    "q_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "o_groups": 2,
    "o_lora_rank": 16,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 16,
    "compress_ratios": [0, 4, 1],
    "kv_source_layer_ids": [1, 2],
    "index_source_layer_ids": [1, 2],
    "index_n_heads": 2,
    "index_head_dim": 32,
    "index_topk": 8,
    "hc_mult": 2,
    "hc_sinkhorn_iters": 2,
}


def written(folder: Path, architecture: str, **changes: Any) -> Path:
    return tiny_mlx.write(folder, architecture, **{**OTHERS.get(architecture, {}), **changes})


def rewritten(folder: Path, change: Callable[[nn.Module], None], **changes: Any) -> Path:
    """Change a model's weights, and its configuration, once they are written."""
    model, values = load_model(folder)
    change(model)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps({**values, **changes}))
    return folder


def reconfigured(folder: Path, **changes: Any) -> Path:
    values = {**json.loads((folder / "config.json").read_text()), **changes}
    present = {name: value for name, value in values.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(present))
    return folder


def refusal(folder: Path) -> str:
    """The one line by which a folder is refused."""
    with pytest.raises(ModelFileError) as caught:
        inspect(folder)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 500
    return line


CODES = {mx.bfloat16: "BF16", mx.float32: "F32", mx.uint32: "U32"}


def hollow(folder: Path, values: dict[str, Any]) -> Path:
    """A model of which only the header is on disk."""
    folder.mkdir()
    model_class, arguments = get_classes(values)
    model = model_class(arguments.from_dict(values))
    model.set_dtype(mx.bfloat16)
    if "quantization" in values:
        nn.quantize(model, **values["quantization"])
    header, end = {}, 0
    for name, array in tree_flatten(model.parameters()):
        offsets = [end, end + array.nbytes]
        header[name] = {
            "dtype": CODES[array.dtype],
            "shape": array.shape,
            "data_offsets": offsets,
        }
        end = offsets[1]
    text = json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps(values))
    tiny_mlx.write_tokenizer(folder)
    return folder

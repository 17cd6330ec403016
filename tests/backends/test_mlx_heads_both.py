"""The same EAGLE-3 head on both engines."""

from __future__ import annotations

import json
import sys
from contextlib import closing

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from gguf import GGUFReader

from localspec.backend import Row
from mlx_conversion.weights import by_halves
from tests import engines
from tests.backends.gguf_copies import made
from tests.backends.test_mlx_heads import loaded, rolled


def converted(gguf, folder, tokens):
    """Write a GGUF's EAGLE-3 head as speculators does, in 32 bits."""
    folder.mkdir()
    held = {tensor.name: np.array(tensor.data) for tensor in GGUFReader(gguf).tensors}
    names = {"fc": "fc", "output_norm": "norm", "output": "lm_head"}
    names |= {f"blk.0.{old}": f"layers.0.{new}" for old, new in EAGLE3_NAMES.items()}
    weights = {f"{new}.weight": held[f"{old}.weight"] for old, new in names.items()}
    for name in ("q_proj", "k_proj"):
        place = f"layers.0.self_attn.{name}.weight"
        weights[place] = by_halves(weights[place], 32)
    weights["d2t"] = held["d2t"] - np.arange(len(held["d2t"]))
    layer = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    layer |= {"hidden_size": 64, "head_dim": 32, "intermediate_size": 96, "vocab_size": tokens}
    settings = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": layer | {"rms_norm_eps": 1e-8, "rope_theta": 10_000.0},
        "draft_vocab_size": len(held["d2t"]),
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
    }
    (folder / "config.json").write_text(json.dumps(settings))
    arrays = {name: mx.array(array) for name, array in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    return folder


EAGLE3_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_norm_2": "hidden_norm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def test_a_head_drafts_the_same_on_both_engines(tmp_path):
    path, beside = engines.with_head("llama-eagle3")
    target = made(path, tmp_path / "made")
    with closing(engines.target("llama-eagle3")) as theirs:
        head = converted(beside, tmp_path / "head", theirs.vocabulary)
        with closing(loaded(target, head)) as ours:
            for at in range(12):
                text = np.random.default_rng(at).integers(0, 384, 20 + at).astype(np.int32)
                found = []
                for model in (ours, theirs):
                    model.truncate(0, 0)
                    model.forward([Row(0, text[:-1])])
                    found.append(rolled(model, text=text).tokens.tolist())
                assert found[0] == found[1]

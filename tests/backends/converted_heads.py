"""Heads of GGUF files in folders for MLX, as their authors lay them out, in 32 bits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from tests import tiny, tiny_mlx
from tests.gguf_to_mlx import PARTS as QWEN3
from tests.gguf_to_mlx import by_halves

NORMS = ("attn_q_norm", "attn_k_norm")  # which Qwen3 has, and Llama lacks
PARTS = {name: layer for name, layer in QWEN3.items() if name not in NORMS}


class HeldHead:
    """The tensors of a GGUF, by names without `.weight`, and its numbers."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.tensors = {
            tensor.name.removesuffix(".weight"): dequantize(tensor.data, tensor.tensor_type)
            if "d2t" not in tensor.name
            else np.array(tensor.data)
            for tensor in reader.tensors
        }
        self._fields = reader.fields
        self._kind = reader.fields["general.architecture"].contents()

    def __getitem__(self, name):
        return self._fields[f"{self._kind}.{name}"].contents()

    @property
    def layer(self):
        """The settings of its layers."""
        return {
            "num_attention_heads": self["attention.head_count"],
            "num_key_value_heads": self["attention.head_count_kv"],
            "head_dim": self["attention.key_length"],
            "hidden_size": self["embedding_length"],
            "intermediate_size": self["feed_forward_length"],
            "rms_norm_eps": self["attention.layer_norm_rms_epsilon"],
            "rope_theta": 10_000.0,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
        }

    def blocks(self, parts, place="layers"):
        """Name the tensors of blocks as MLX does."""
        tensors = {}
        for name, values in self.tensors.items():
            kind, at, part = (*name.split(".", 2), "", "")[:3]
            if kind == "blk" and part in parts:
                tensors[f"{place}.{at}.{parts[part]}.weight"] = values
        return tensors


def stored(folder: Path, weights: Mapping, settings: Mapping) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    arrays = {name: mx.array(array) for name, array in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), arrays, metadata={"format": "mlx"})
    return folder


def eagle3(gguf: Path, folder: Path, tokens: int) -> Path:
    """Write an EAGLE-3 head as speculators does."""
    held = HeldHead(gguf)
    weights = held.blocks(PARTS | {"attn_norm_2": "hidden_norm"})
    for name in ("q_proj", "k_proj"):
        place = f"layers.0.self_attn.{name}.weight"
        weights[place] = by_halves(weights[place], held.layer["head_dim"])
    names = {"fc": "fc", "output_norm": "norm", "output": "lm_head"}
    weights |= {f"{new}.weight": held.tensors[old] for old, new in names.items()}
    drafted = held.tensors["d2t"]
    weights["d2t"] = drafted - np.arange(len(drafted))
    settings = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": {**held.layer, "num_hidden_layers": 1, "vocab_size": tokens},
        "draft_vocab_size": len(drafted),
        "eagle_aux_hidden_state_layer_ids": held["target_layers"],
    }
    return stored(folder, weights, settings)


OF_DFLASH = {
    "fc": "fc.weight",
    "output_norm": "norm.weight",
    "enc.output_norm": "hidden_norm.weight",
    "markov_w1": "markov_head.markov_w1.weight",
    "markov_w2": "markov_head.markov_w2.weight",
    "selector_predecessor": "candidate_selector.predecessor_codebook",
    "selector_successor": "candidate_selector.successor_codebook",
    "selector_hidden": "candidate_selector.hidden_projection.weight",
}
CONVOLUTIONS = {"attn_conv": "attention_conv", "ffn_conv": "mlp_conv"}
LATER = {
    "llama-dflash": {},
    "llama-dspark": {"projector_type": "dspark", "markov_rank": tiny.MARKOV},
    "llama-dflash2": {
        "conv_kernel_size": tiny.CONVOLUTION,
        "conv_group_size": tiny.SPREAD,
        "selector_rank": tiny.MARKOV,
        "selector_top_k": tiny.CANDIDATES,
    },
}


def dflash(gguf: Path, folder: Path, tokens: int, later: Mapping = {}) -> Path:
    """Write a DFlash head as its authors do."""
    held = HeldHead(gguf)
    parts = QWEN3 | {f"{old}_proj": f"{new}.kernel_projection" for old, new in CONVOLUTIONS.items()}
    weights = held.blocks(parts)
    weights |= {new: held.tensors[old] for old, new in OF_DFLASH.items() if old in held.tensors}
    for old, new in CONVOLUTIONS.items():
        for at in range(held["block_count"]):
            if (base := f"blk.{at}.{old}_base") in held.tensors:
                weights[f"layers.{at}.{new}.base_kernel"] = held.tensors[base]
    read = [at - 1 for at in held["target_layers"]]  # a GGUF tells before which layers
    own = {"mask_token_id": tiny.MASK, "target_layer_ids": read, **later}
    settings = {
        **held.layer,
        "model_type": "qwen3",
        "num_hidden_layers": held["block_count"],
        "vocab_size": tokens,
        "block_size": held["block_size"],
        "dflash_config": own,
    }
    return stored(folder, weights, settings)


MTP = {
    "nextn.eh_proj": "mtp.fc",
    "nextn.enorm": "mtp.pre_fc_norm_embedding",
    "nextn.hnorm": "mtp.pre_fc_norm_hidden",
}
DELTA = {
    "attn_qkv": "in_proj_qkv.weight",
    "attn_gate": "in_proj_z.weight",
    "ssm_alpha": "in_proj_a.weight",
    "ssm_beta": "in_proj_b.weight",
    "ssm_conv1d": "conv1d.weight",
    "ssm_a": "A_log",
    "ssm_dt.bias": "dt_bias",
    "ssm_norm": "norm.weight",
    "ssm_out": "out_proj.weight",
}
BY_HEADS = {"attn_gate": 0, "ssm_alpha": 0, "ssm_beta": 0, "ssm_a": 0, "ssm_dt.bias": 0}
BY_HEADS |= {"ssm_out": 1}
KEYS, VALUES, STATE = tiny.DELTA_KEYS, tiny.DELTA_VALUES, tiny.DELTA_STATE


def grouped(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Put heads of values beside those of the same key, which llama.cpp deals out in turn."""
    shape = values.shape
    wide = values.reshape(*shape[:axis], VALUES // KEYS, KEYS, -1, *shape[axis + 1 :])
    return wide.swapaxes(axis, axis + 1).reshape(shape)


def delta(part: str, values: np.ndarray) -> np.ndarray:
    """Lay out a tensor of a linear layer as MLX does."""
    if part in BY_HEADS:
        values = grouped(values, BY_HEADS[part])
    if part in ("attn_qkv", "ssm_conv1d"):
        first = 2 * KEYS * STATE
        values = np.concatenate([values[:first], grouped(values[first:])])
    if part == "ssm_conv1d":
        return values[..., None]
    return np.log(-values) if part == "ssm_a" else values


def qwen35(gguf: Path, folder: Path) -> Path:
    """Write a Qwen3.5 with its head inside, as mlx-lm and mlx-vlm convert them."""
    held = HeldHead(gguf)
    last, tensors = held["block_count"] - 1, held.tensors
    weights = held.blocks(QWEN3 | {"post_attention_norm": PARTS["ffn_norm"]}, "model.layers")
    for at in range(last - 1):
        for part, name in DELTA.items():
            values = delta(part, tensors[f"blk.{at}.{part}"])
            weights[f"model.layers.{at}.linear_attn.{name}"] = values
    weights["model.embed_tokens.weight"] = tensors["token_embd"]
    weights["model.norm.weight"] = tensors["output_norm"]
    weights["lm_head.weight"] = tensors["output"]
    found = {}
    for name, values in weights.items():
        inside = name.replace(f"model.layers.{last}.", "mtp.layers.0.")
        found[inside if inside != name else f"language_model.{name}"] = values
    found |= {f"{new}.weight": tensors[f"blk.{last}.{old}"] for old, new in MTP.items()}
    found["mtp.norm.weight"] = tensors["output_norm"]
    settings = {
        **tiny_mlx.ARCHITECTURES["qwen3_5"],
        **held.layer,
        "model_type": "qwen3_5",
        "num_hidden_layers": last,
        "vocab_size": len(tensors["token_embd"]),
        "mtp_num_hidden_layers": 1,
        "rope_parameters": {"type": "default", "rope_theta": 10_000, "partial_rotary_factor": 1.0},
    }
    folder.mkdir()
    tiny_mlx.write_tokenizer(folder)
    return stored(folder, found, settings)

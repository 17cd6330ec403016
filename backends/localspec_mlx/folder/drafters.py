"""Drafting heads in folders: with a model's weights, or in a folder of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from localspec.interfaces.backend import Footprint
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import shards
from localspec_mlx.folder.config import HEADS, LAYERS, TOKENS, WIDTHS, Config
from localspec_mlx.folder.files import Object
from localspec_mlx.folder.shards import Shards

MTP, EAGLE, EAGLE3, DFLASH = "mtp", "eagle", "eagle3", "dflash"
MEDUSA, SPECULATOR = "medusa", "mlp_speculator"
LAYERSKIP = "layerskip"  # a model's own first layers
ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
OF_QWEN = ("qwen3_5_mtp",)
# The proposer of a folder that holds a head alone, by its model_type.
COMPANIONS: Mapping[str, str] = {
    **dict.fromkeys((*OF_QWEN, *ASSISTANTS), MTP),
    MEDUSA: MEDUSA,
    SPECULATOR: SPECULATOR,
}
KV_BYTES = 2  # of one 16-bit key or value
KV_HEADS = ("num_key_value_heads", *HEADS)
WITH_HEADS = ("qwen3_5", "qwen3_5_moe", "qwen3_next")  # models that may have one inside
PREFIX = "mtp."  # of a head's tensors there
COPIED = ("embed_tokens.", "lm_head.")  # of an EAGLE head's target, which lends its own
# EAGLE's configuration is that of a model of one layer, whose names begin with "model.".
EAGLES_OWN = "layers.0.self_attn.q_proj.weight"
LAYER = re.compile(r"mtp\.layers\.(\d+)\.")
DEPTH = ("mtp_num_hidden_layers",)
READS = (
    "backbone_hidden_size",
    "target_hidden_size",
    "emb_dim",
)  # width of the target's states, where a head has another


class Inside(NamedTuple):
    """A head among the weights of a model."""

    layers: int = 0
    bytes: int = 0


def drafter(config: Config) -> str:
    """Name the proposer that a folder is for; empty: it holds a model."""
    if config.model_type == EAGLE3 or "draft_vocab_size" in config.values:
        return EAGLE3
    if isinstance(config.values.get("dflash_config"), dict):
        return DFLASH
    if config.model_type in COMPANIONS:
        return COMPANIONS[config.model_type]
    if config.number(LAYERS) == 1 and EAGLES_OWN in shards.read(config.path.parent).sizes:
        return EAGLE
    return ""


def files(config: Config) -> str:
    """Choose the files of a folder that hold its weights: Medusa's have names of their own."""
    return "*.safetensors" if drafter(config) == MEDUSA else shards.PATTERN


def layers_read(folder: Path) -> int:
    """Count the layers of a target that a head in a folder of its own reads."""
    config = configuration.read(folder)
    own = config.values.get("dflash_config")
    if isinstance(own, dict):
        return len(own.get("target_layer_ids", ()))
    return 3 if drafter(config) == EAGLE3 else 1


def inside(config: Config, held: Shards) -> Inside:
    """Find the head among the weights of a model, which mlx-lm does not load."""
    if config.model_type not in WITH_HEADS:
        return Inside()
    sizes = {name: size for name, size in held.sizes.items() if name.startswith(PREFIX)}
    layers = {match[1] for name in sizes if (match := LAYER.match(name))}
    return Inside(len(layers), sum(sizes.values()) if layers else 0)


def described(path: Path, config: Config, held: Shards) -> Footprint:
    """Describe a head by its configuration: without its target nothing can be laid out."""
    kind, nested = drafter(config), config.values.get("transformer_layer_config")
    inner = nested if isinstance(nested, dict) else {}
    kept = copied = 0
    if kind == EAGLE:
        copied = sum(size for name, size in held.sizes.items() if name.startswith(COPIED))
    if kind in (EAGLE, EAGLE3, DFLASH):
        kept = 2 * KV_BYTES * config.number(KV_HEADS, inner) * head_width(config, inner)
    return Footprint(
        path=path,
        architecture=config.model_type,
        name=path.name,
        quantisation="",
        file_bytes=held.file_bytes,
        weight_bytes=held.weight_bytes - copied,
        layers=config.number(DEPTH if config.model_type in OF_QWEN else LAYERS, inner) or 1,
        heads=0,
        kv_heads=0,
        embedding=config.number(READS, inner) or config.number(WIDTHS, inner),
        vocabulary=config.number(TOKENS, inner),
        context=0,
        tokenizer="",
        chat_template=None,
        drafter=kind,
        kv_bytes_per_token=kept,
    )


def head_width(config: Config, inner: Object) -> int:
    """Count the numbers of one key."""
    heads = config.number(HEADS, inner) or 1
    return config.number(("head_dim",), inner) or config.number(WIDTHS, inner) // heads

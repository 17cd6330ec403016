"""Random weights with varied logits, and the drafting blocks that transformers drops."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

# What keeps a recurrent layer or a norm stable stays as transformers sets it.
KEPT = ("A_log", "conv1d", "dt_bias", "norm.weight")
Tensors = dict[str, torch.Tensor]


def randomise(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.state_dict().items()):
        if not value.is_floating_point():
            continue
        if value.ndim >= 2 and not any(word in name for word in KEPT):
            embeds = "embed" in name or "wte" in name
            spread = 1.0 if embeds else 1.3 / math.sqrt(value.shape[-1])
            value.copy_(torch.randn(value.shape, generator=generator) * spread)
        elif name.endswith("bias") and "dt" not in name:
            value.copy_(torch.randn(value.shape, generator=generator) * 0.05)


def rename(folder: Path, old: str, new: str) -> None:
    """Call tensors as published files do."""
    file = folder / "model.safetensors"
    tensors = {name.replace(old, new): value for name, value in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})


def add_spare(folder: Path) -> None:
    """Add keys and values to layers that share those of earlier ones, as published files do."""
    file = folder / "model.safetensors"
    tensors: Tensors = load_file(file)
    key_values = [name for name in tensors if ".self_attn.k_" in name or ".self_attn.v_" in name]
    first = {name.partition(".self_attn.")[2]: name for name in sorted(key_values, reverse=True)}
    for name in [name for name in tensors if name.endswith(".self_attn.q_proj.weight")]:
        layer = name.partition(".self_attn.")[0]
        for part, source in first.items():
            tensors.setdefault(f"{layer}.self_attn.{part}", tensors[source].clone())
    save_file(tensors, file, metadata={"format": "pt"})


def add_drafting_block(folder: Path, width: int) -> None:
    """Copy the last layer, or the first with attention, as a drafting block with its inputs."""
    file = folder / "model.safetensors"
    tensors: Tensors = load_file(file)
    linear = any(".linear_attn." in name for name in tensors)
    added = beside(tensors, width) if linear else appended(tensors, width)
    save_file({**tensors, **added}, file, metadata={"format": "pt"})


def appended(tensors: Tensors, width: int) -> Tensors:
    """Name a drafting block as GLM and DeepSeek do: a layer more than the trunk."""
    layers = [name.split(".")[2] for name in tensors if name.startswith("model.layers.")]
    last = max(map(int, layers))
    old, new = f"model.layers.{last}.", f"model.layers.{last + 1}."
    added = {
        name.replace(old, new): value.clone()
        for name, value in tensors.items()
        if name.startswith(old)
    }
    added[f"{new}eh_proj.weight"] = joining(width)
    for name in ("enorm", "hnorm", "shared_head.norm"):
        added[f"{new}{name}.weight"] = torch.ones(width, dtype=torch.bfloat16)
    added[f"{new}embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
    added[f"{new}shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    return added


def beside(tensors: Tensors, width: int) -> Tensors:
    """Name a drafting block as Qwen does: tensors of their own names."""
    old = next(name for name in tensors if "self_attn.q_proj" in name).split("self_attn")[0]
    added = {
        f"mtp.layers.0.{name[len(old) :]}": value.clone()
        for name, value in tensors.items()
        if name.startswith(old)
    }
    added["mtp.fc.weight"] = joining(width)
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        added[f"mtp.{name}.weight"] = torch.zeros(width, dtype=torch.bfloat16)
    return added


def joining(width: int) -> torch.Tensor:
    """Make a matrix from a token and a hidden state to the width of one."""
    return torch.randn(width, 2 * width).to(torch.bfloat16) * 0.05

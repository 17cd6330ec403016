"""Granite, dense, with experts and with Mamba 2 layers."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import EXPERTS, MAMBA, layer_types, share
from architectures.recipe import Recipe, Values

HYBRID: Values = {
    "num_hidden_layers": 8,
    "layer_types": ["mamba", "mamba", "mamba", "attention"] * 2,
}
ATTENTION: Values = {"layer_types": ["attention"] * 4}
DENSE: Values = {
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "shared_intermediate_size": 256,
    "position_embedding_type": "rope",
}
RECIPES: Mapping[str, Recipe] = {
    "granite": Recipe(
        "granite",
        {
            "embedding_multiplier": 2.0,
            "attention_multiplier": 0.125,
            "residual_multiplier": 0.5,
            "logits_scaling": 4.0,
        },
        "refact",
    ),
    "granitemoe": Recipe("granitemoe", {**EXPERTS}, "refact"),
    "granitemoeshared": Recipe(
        "granitemoeshared", {**EXPERTS, "shared_intermediate_size": 128}, "refact"
    ),
    "granitehybrid": Recipe(
        "granitemoehybrid",
        {
            **EXPERTS,
            **MAMBA,
            **HYBRID,
            "shared_intermediate_size": 128,
            "position_embedding_type": "nope",
        },
        "refact",
        says={"layer_types": HYBRID["layer_types"]},
    ),
    "granitehybrid-dense": Recipe(
        "granitemoehybrid",
        {**DENSE, **MAMBA, **HYBRID},
        "refact",
        says={"layer_types": HYBRID["layer_types"]},
    ),
    "granitehybrid-attn": Recipe(
        "granitemoehybrid",
        {
            **DENSE,
            **ATTENTION,
            "num_hidden_layers": 4,
            "mamba_n_heads": 8,
            "mamba_d_head": share(1, 4),
            "mamba_d_state": 64,
            "mamba_n_groups": 1,
        },
        "refact",
        says=ATTENTION,
    ),
    "graniteswa": Recipe("granite_swa", {"sliding_window": 64, **layer_types(4, 4)}, "refact"),
}

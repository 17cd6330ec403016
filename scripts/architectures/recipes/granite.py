"""Granite, dense, with experts and with Mamba 2 layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import EXPERTS, MAMBA, WINDOW, share
from architectures.recipe import Recipe, Values, recipe

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
    "granite": recipe(
        "granite",
        "refact",
        embedding_multiplier=2.0,
        attention_multiplier=0.125,
        residual_multiplier=0.5,
        logits_scaling=4.0,
    ),
    "granitemoe": recipe("granitemoe", "refact", EXPERTS),
    "granitemoeshared": recipe("granitemoeshared", "refact", EXPERTS, shared_intermediate_size=128),
    "granitehybrid": replace(
        recipe(
            "granitemoehybrid",
            "refact",
            EXPERTS,
            MAMBA,
            HYBRID,
            shared_intermediate_size=128,
            position_embedding_type="nope",
        ),
        says={"layer_types": HYBRID["layer_types"]},
    ),
    "granitehybrid-dense": replace(
        recipe("granitemoehybrid", "refact", DENSE, MAMBA, HYBRID),
        says={"layer_types": HYBRID["layer_types"]},
    ),
    "granitehybrid-attn": replace(
        recipe(
            "granitemoehybrid",
            "refact",
            DENSE,
            ATTENTION,
            num_hidden_layers=4,
            mamba_n_heads=8,
            mamba_d_head=share(1, 4),
            mamba_d_state=64,
            mamba_n_groups=1,
        ),
        says=ATTENTION,
    ),
    "graniteswa": recipe("granite_swa", "refact", WINDOW),
}

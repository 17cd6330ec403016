"""Gemma, with windows, shared layers and embeddings per layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import GEMMA, VOCABULARY, layer_types
from architectures.recipe import Recipe, Values, recipe

TIED: Values = {**GEMMA, "tie_word_embeddings": True}
THIRD: Values = {**TIED, "num_hidden_layers": 6, "sliding_window": 64}
FOURTH: Values = {**THIRD, "global_head_dim": 128, "num_kv_shared_layers": 0}
PER_LAYER: Values = {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": VOCABULARY}
RECIPES: Mapping[str, Recipe] = {
    "gemma": recipe("gemma", "", TIED),
    "gemma2": recipe("gemma2", "", TIED, sliding_window=64, query_pre_attn_scalar=64),
    "gemma3": recipe("gemma3_text", "", THIRD, query_pre_attn_scalar=64),
    "gemma3-wrap": replace(recipe("gemma3", "", THIRD), wrapped=True),
    "gemma3n": replace(
        recipe(
            "gemma3n_text",
            "",
            TIED,
            hidden_size=128,
            intermediate_size=128,
            num_hidden_layers=30,
            num_kv_shared_layers=10,
            sliding_window=64,
            hidden_size_per_layer_input=256,
            vocab_size_per_layer_input=VOCABULARY,
            laurel_rank=64,
            activation_sparsity_pattern=[0.95] * 10 + [0.0] * 20,
            layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 6,
        ),
        spare=True,
    ),
    "gemma4": recipe("gemma4_text", "gemma4", FOURTH, PER_LAYER, layer_types(6, 6)),
    "gemma4-shared": recipe(
        "gemma4_text", "gemma4", FOURTH, PER_LAYER, layer_types(6, 3), num_kv_shared_layers=3
    ),
    "gemma4-moe": recipe(
        "gemma4_text",
        "gemma4",
        FOURTH,
        layer_types(6, 6),
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        hidden_size_per_layer_input=0,
        enable_moe_block=True,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=128,
        expert_intermediate_size=128,
    ),
    "vaultgemma": recipe("vaultgemma", "", GEMMA, sliding_window=64),
}

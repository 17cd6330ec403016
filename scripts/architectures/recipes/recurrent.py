"""Models with states in place of some or all keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import DEEPSEEK, EXPERTS, HEAD, LINEAR, MAMBA, share
from architectures.recipe import Recipe, Values, recipe

NEMOTRON: Values = {
    **HEAD,
    "num_hidden_layers": 6,
    "mamba_num_heads": 8,
    "mamba_head_dim": share(1, 4),
    "ssm_state_size": 64,
    "n_groups": 2,
    "conv_kernel": 4,
    "expand": 2,
}
STATES: Values = {
    "intermediate_size": share(2),
    "state_size": 16,
    "expand": 2,
    "conv_kernel": 4,
    "time_step_rank": 16,
}
JAMBA: Values = {
    "num_hidden_layers": 8,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "mamba_d_state": 16,
    "mamba_dt_rank": 16,
    "use_mamba_kernels": False,
}
RECIPES: Mapping[str, Recipe] = {
    "lfm2": replace(
        recipe(
            "lfm2",
            "lfm2",
            num_hidden_layers=6,
            conv_L_cache=3,
            block_multiple_of=64,
            layer_types=["conv", "conv", "full_attention"] * 2,
            tie_word_embeddings=True,
        ),
        says={"block_dim": share(1)},
    ),
    "lfm2moe": recipe(
        "lfm2_moe",
        "lfm2",
        EXPERTS,
        num_hidden_layers=6,
        num_dense_layers=1,
        layer_types=["conv", "conv", "full_attention"] * 2,
        tie_word_embeddings=True,
    ),
    "falconh1": recipe(
        "falcon_h1",
        "falcon-h1",
        HEAD,
        mamba_d_ssm=share(1),
        mamba_n_heads=8,
        mamba_d_head=share(1, 8),
        mamba_d_state=64,
        mamba_n_groups=1,
        mamba_expand=1,
    ),
    "nemotronh": replace(
        recipe(
            "nemotron_h",
            "tekken",
            NEMOTRON,
            hybrid_override_pattern="M-M*-M",
            layers_block_type=["mamba", "mlp", "mamba", "attention", "mlp", "mamba"],
        ),
        says={"hybrid_override_pattern": "M-M*-M", "num_hidden_layers": 6},
        lacks=("layers_block_type", "*expert*", "*moe*", "n_group", "topk_group"),
        as_written=True,
    ),
    "nemotronh-moe": replace(
        recipe(
            "nemotron_h",
            "tekken",
            EXPERTS,
            NEMOTRON,
            n_shared_experts=1,
            moe_shared_expert_intermediate_size=128,
            n_group=1,
            topk_group=1,
            layers_block_type=["mamba", "moe", "mamba", "attention", "moe", "mamba"],
            hybrid_override_pattern="MEM*EM",
        ),
        says={"hybrid_override_pattern": "MEM*EM", "num_hidden_layers": 6},
        lacks=("layers_block_type",),
    ),
    "mamba": recipe("mamba", "olmo", STATES),
    "falconmamba": recipe("falcon_mamba", "falcon", STATES),
    "mamba2": recipe(
        "mamba2",
        "olmo",
        intermediate_size=share(2),
        state_size=64,
        num_heads=8,
        head_dim=share(1, 4),
        n_groups=1,
        expand=2,
    ),
    "jamba": recipe("jamba", "", JAMBA, EXPERTS, expert_layer_period=2, expert_layer_offset=1),
    "jamba-dense": recipe("jamba", "", JAMBA, num_experts=1, num_experts_per_tok=1),
    "bamba": recipe("bamba", "llama-bpe", MAMBA, attn_layer_indices=[2], num_hidden_layers=4),
    "kimilinear": replace(
        recipe(
            "kimi_linear",
            "qwen2",
            DEEPSEEK,
            q_lora_rank=None,
            num_experts=4,
            linear_head_dim=64,
            linear_num_heads=4,
            layer_types=["linear_attention"] * 3 + ["full_attention"],
        ),
        says={
            "moe_router_activation_func": "sigmoid",
            "linear_attn_config": {
                "kda_layers": [1, 2, 3],
                "full_attn_layers": [4],
                "short_conv_kernel_size": 4,
                "head_dim": 64,
                "num_heads": 4,
            },
        },
        renames={"model.layers.0.block_sparse_moe.": "model.layers.0.mlp."},
    ),
    "olmohybrid": recipe("olmo_hybrid", "dbrx", LINEAR),
}

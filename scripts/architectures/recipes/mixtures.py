"""Other mixtures of experts."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import EXPERTS, HEAD, layer_types
from architectures.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {
    "olmoe": Recipe("olmoe", {**EXPERTS, "num_key_value_heads": 4}, "olmo"),
    "cohere2moe": Recipe(
        "cohere2_moe",
        {
            **EXPERTS,
            **HEAD,
            "sliding_window": 64,
            "tie_word_embeddings": True,
            **layer_types(4, 4),
        },
        "command-r",
    ),
    "hunyuanmoe": Recipe(
        "hunyuan_v1_moe",
        {**EXPERTS, **HEAD, "moe_topk": 2, "num_shared_expert": 1},
        "hunyuan",
        says={
            "moe_intermediate_size": [128] * 4,
            "moe_topk": [2] * 4,
            "num_shared_expert": [1] * 4,
            "num_experts": 4,
        },
    ),
    "ernie45moe": Recipe(
        "ernie4_5_moe",
        {
            **EXPERTS,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 3,
            "moe_layer_interval": 1,
        },
    ),
    "afmoe": Recipe(
        "afmoe",
        {
            **EXPERTS,
            **HEAD,
            "num_shared_experts": 1,
            "num_dense_layers": 1,
            "sliding_window": 64,
            "global_attn_every_n_layers": 4,
            **layer_types(4, 4),
        },
        "afmoe",
    ),
}

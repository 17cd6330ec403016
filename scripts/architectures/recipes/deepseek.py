"""DeepSeek and others with latent attention or its experts."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import DEEPSEEK, HEAD, LATENT, layer_types, share
from architectures.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {
    "deepseek2": Recipe(
        "deepseek_v2",
        {**DEEPSEEK, "topk_method": "greedy", "norm_topk_prob": False},
        "deepseek-llm",
    ),
    "deepseek2-lite": Recipe(
        "deepseek_v2",
        {
            **DEEPSEEK,
            "num_hidden_layers": 27,
            "hidden_size": share(1, 2),
            "intermediate_size": share(1, 2),
            "moe_intermediate_size": 32,
            "q_lora_rank": None,
            "topk_method": "greedy",
            "norm_topk_prob": False,
        },
        "deepseek-llm",
    ),
    "deepseek3": Recipe("deepseek_v3", DEEPSEEK, "deepseek-v3"),
    "deepseek32": Recipe(
        "deepseek_v32",
        {**DEEPSEEK, "index_n_heads": 4, "index_head_dim": 64, "index_topk": 64},
        "deepseek-v3",
        tokenizer_says={"add_bos_token": True, "tokenizer_class": "LlamaTokenizerFast"},
    ),
    "deepseek4": Recipe("deepseek_v4", {**DEEPSEEK}, "deepseek-v3"),
    "minicpm3": Recipe("minicpm3", {**LATENT, "v_head_dim": share(1, 4)}),
    "exaonemoe": Recipe(
        "exaone_moe",
        {
            **DEEPSEEK,
            **HEAD,
            "num_key_value_heads": 2,
            "num_shared_experts": 1,
            "sliding_window": 64,
            "sliding_window_pattern": "LLLG",
            **layer_types(4, 4),
        },
        "exaone-moe",
        says={"scoring_func": "sigmoid"},
    ),
    "hyv3": Recipe("hy_v3", {**DEEPSEEK, **HEAD, "num_key_value_heads": 2}, "hunyuan"),
    "hyv4": Recipe("hy_v4", {**DEEPSEEK}, "hunyuan"),
    "dots1": Recipe(
        "dots1",
        {**DEEPSEEK, **HEAD, "num_key_value_heads": 4},
        "qwen2",
        says={"scoring_func": "sigmoid"},
    ),
    "dots3": Recipe("dots3_note_text", {**DEEPSEEK}, "qwen2", says={"scoring_func": "sigmoid"}),
}

"""DeepSeek and others with latent attention or its experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import DEEPSEEK, HEAD, INDEXED, LATENT, SIGMOID, WINDOW, share
from architectures.recipe import Recipe, recipe

RECIPES: Mapping[str, Recipe] = {
    "deepseek2": recipe(
        "deepseek_v2", "deepseek-llm", DEEPSEEK, topk_method="greedy", norm_topk_prob=False
    ),
    "deepseek2-lite": recipe(
        "deepseek_v2",
        "deepseek-llm",
        DEEPSEEK,
        num_hidden_layers=27,
        hidden_size=share(1, 2),
        intermediate_size=share(1, 2),
        moe_intermediate_size=32,
        q_lora_rank=None,
        topk_method="greedy",
        norm_topk_prob=False,
    ),
    "deepseek3": recipe("deepseek_v3", "deepseek-v3", DEEPSEEK),
    "deepseek32": replace(
        recipe("deepseek_v32", "deepseek-v3", DEEPSEEK, INDEXED),
        tokenizer_says={"add_bos_token": True, "tokenizer_class": "LlamaTokenizerFast"},
    ),
    "deepseek4": recipe("deepseek_v4", "deepseek-v3", DEEPSEEK),
    "minicpm3": recipe("minicpm3", "", LATENT, v_head_dim=share(1, 4)),
    "exaonemoe": replace(
        recipe(
            "exaone_moe",
            "exaone-moe",
            DEEPSEEK,
            HEAD,
            WINDOW,
            num_key_value_heads=2,
            num_shared_experts=1,
            sliding_window_pattern="LLLG",
        ),
        says=SIGMOID,
    ),
    "hyv3": recipe("hy_v3", "hunyuan", DEEPSEEK, HEAD, num_key_value_heads=2),
    "hyv4": recipe("hy_v4", "hunyuan", DEEPSEEK),
    "dots1": replace(recipe("dots1", "qwen2", DEEPSEEK, HEAD, num_key_value_heads=4), says=SIGMOID),
    "dots3": replace(recipe("dots3_note_text", "qwen2", DEEPSEEK), says=SIGMOID),
}

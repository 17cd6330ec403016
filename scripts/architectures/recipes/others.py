"""Phi, gpt-oss and other models whose makers have few kinds, dense and with experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import EXPERTS, HEAD, WINDOW, repeated, rope, share
from architectures.recipe import Recipe, Values, recipe

GPT: Values = {"n_embd": share(1), "n_layer": 4, "n_head": 4, "n_positions": 1024}
LONG: Values = {
    "short_factor": repeated(1.0, share(1, 8)),
    "long_factor": repeated(2.0, share(1, 8)),
    "original_max_position_embeddings": 1024,
}
RECIPES: Mapping[str, Recipe] = {
    "phi2": recipe(
        "phi", "phi-2", partial_rotary_factor=0.5, intermediate_size=share(4), num_key_value_heads=4
    ),
    "phi3": recipe("phi3", sliding_window=None, original_max_position_embeddings=4096),
    "phi4": replace(
        recipe(
            "phi3",
            "dbrx",
            sliding_window=None,
            original_max_position_embeddings=4096,
            num_key_value_heads=1,
        ),
        tokenizer_says={"tokenizer_class": "GPT2Tokenizer"},
    ),
    "phi3-long": recipe(
        "phi3",
        "",
        rope("longrope", 1e4, **LONG),
        sliding_window=64,
        max_position_embeddings=8192,
        original_max_position_embeddings=1024,
    ),
    "phimoe": replace(
        recipe(
            "phimoe",
            "",
            EXPERTS,
            rope("longrope", 1e4, **LONG, short_mscale=1.2, long_mscale=1.2),
            lm_head_bias=True,
            attention_bias=True,
            sliding_window=None,
        ),
        says={"architectures": ["PhiMoEForCausalLM"]},
    ),
    "gptoss": recipe(
        "gpt_oss",
        "gpt-4o",
        EXPERTS,
        HEAD,
        rope(
            "yarn",
            15e4,
            factor=8.0,
            beta_fast=32.0,
            beta_slow=1.0,
            truncate=False,
            original_max_position_embeddings=512,
        ),
        sliding_window=64,
    ),
    "olmo": recipe("olmo", "olmo"),
    "olmo2": recipe("olmo2", "dbrx"),
    "olmo3": recipe("olmo3", "dbrx", WINDOW),
    "exaone4": recipe("exaone4", "exaone4", WINDOW, sliding_window_pattern=4),
    "exaone4-full": recipe(
        "exaone4", "exaone4", sliding_window=None, layer_types=["full_attention"] * 4
    ),
    "cohere": recipe("cohere", "command-r", use_qk_norm=False, tie_word_embeddings=True),
    "cohere2": replace(
        recipe("cohere2", "command-r", HEAD, WINDOW, tie_word_embeddings=True),
        says={"rotary_pct": 1.0},
    ),
    "stablelm": recipe("stablelm", "stablelm2", partial_rotary_factor=0.25),
    "starcoder2": recipe("starcoder2", "starcoder", sliding_window=None),
    "hunyuan": recipe("hunyuan_v1_dense", "hunyuan-dense", HEAD),
    "ernie45": recipe("ernie4_5", "", HEAD),
    "hrm": recipe("hrm_text", "qwen2", HEAD, num_key_value_heads=4),
    "nemotron": recipe("nemotron", partial_rotary_factor=0.5),
    "olmoe": recipe("olmoe", "olmo", EXPERTS, num_key_value_heads=4),
    "cohere2moe": recipe(
        "cohere2_moe", "command-r", EXPERTS, HEAD, WINDOW, tie_word_embeddings=True
    ),
    "hunyuanmoe": replace(
        recipe("hunyuan_v1_moe", "hunyuan", EXPERTS, HEAD, moe_topk=2, num_shared_expert=1),
        says={
            "moe_intermediate_size": [128] * 4,
            "moe_topk": [2] * 4,
            "num_shared_expert": [1] * 4,
            "num_experts": 4,
        },
    ),
    "ernie45moe": recipe(
        "ernie4_5_moe",
        "",
        EXPERTS,
        moe_num_experts=4,
        moe_k=2,
        moe_num_shared_experts=1,
        moe_layer_start_index=1,
        moe_layer_end_index=3,
        moe_layer_interval=1,
    ),
    "afmoe": recipe(
        "afmoe",
        "afmoe",
        EXPERTS,
        HEAD,
        WINDOW,
        num_shared_experts=1,
        num_dense_layers=1,
        global_attn_every_n_layers=4,
    ),
    "falcon": recipe(
        "falcon", "falcon", new_decoder_architecture=True, num_kv_heads=2, alibi=False
    ),
    "gpt2": replace(recipe("gpt2", "gpt-2", GPT, n_inner=share(1)), says={"n_ctx": 1024}),
    "starcoder1": recipe("gpt_bigcode", "starcoder", GPT, n_inner=share(4)),
    "gptneox": replace(recipe("gpt_neox", "olmo", rotary_pct=0.25), says={"rotary_pct": 0.25}),
    "bloom": recipe("bloom", "bloom", n_layer=4, n_head=4),
    "mpt": recipe(
        "mpt", "mpt", d_model=share(1), n_heads=4, n_layers=4, expansion_ratio=2, max_seq_len=1024
    ),
}

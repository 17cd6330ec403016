"""Llama, Mistral and models with their layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import EXPERTS, HEAD, LATENT, WINDOW, rope
from architectures.recipe import Recipe, Values, recipe

YARN = rope(
    "yarn",
    1e6,
    factor=4.0,
    beta_fast=32.0,
    beta_slow=1.0,
    mscale=1.0,
    mscale_all_dim=1.0,
    original_max_position_embeddings=1024,
    llama_4_scaling_beta=0.1,
)
WINDOWED: Values = {**EXPERTS, **HEAD, **WINDOW}
RECIPES: Mapping[str, Recipe] = {
    "llama3": recipe(
        "llama",
        "llama-bpe",
        rope(
            "llama3",
            5e5,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=1024,
        ),
    ),
    "llama-spm": recipe("llama"),
    "llama-tied": recipe("llama", "smollm", tie_word_embeddings=True, attention_bias=True),
    "llama4": recipe(
        "llama4_text",
        "llama4",
        EXPERTS,
        HEAD,
        intermediate_size_mlp=256,
        interleave_moe_layer_step=1,
        num_hidden_layers=4,
        attention_chunk_size=64,
        num_experts_per_tok=1,
        moe_layers=None,
    ),
    "mistral": recipe("mistral", "", HEAD, sliding_window=None),
    "mistral-tekken": recipe("mistral", "tekken", HEAD, sliding_window=None),
    "mixtral": recipe("mixtral", "", EXPERTS, sliding_window=None),
    "ministral3": recipe("ministral3", "tekken", HEAD, YARN),
    "mistral3-wrap": replace(
        recipe("mistral3", "tekken", HEAD, YARN, model_type="ministral3"), wrapped=True
    ),
    "smollm3": recipe("smollm3", "smollm", no_rope_layer_interval=4),
    "arcee": recipe("arcee", "llama-bpe"),
    "apertus": recipe("apertus", "tekken"),
    "seedoss": recipe("seed_oss", "seed-coder", HEAD),
    "bitnet": recipe("bitnet", "llama-bpe", tie_word_embeddings=True),
    "jais2": recipe("jais2", "jais-2"),
    "mellum": recipe("mellum", "qwen2", WINDOWED),
    "laguna": recipe("laguna", "qwen2", WINDOWED),
    "youtu": recipe("youtu", "youtu", LATENT),
}

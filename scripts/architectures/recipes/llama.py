"""Llama, Mistral and models with their layers."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import EXPERTS, HEAD, LATENT, layer_types
from architectures.recipe import Recipe, Values

YARN: Values = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1e6,
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 1024,
        "llama_4_scaling_beta": 0.1,
    }
}
WINDOWED: Values = {**EXPERTS, **HEAD, "sliding_window": 64, **layer_types(4, 4)}
RECIPES: Mapping[str, Recipe] = {
    "llama3": Recipe(
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5e5,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 1024,
            }
        },
        "llama-bpe",
    ),
    "llama-spm": Recipe("llama", {}),
    "llama-tied": Recipe("llama", {"tie_word_embeddings": True, "attention_bias": True}, "smollm"),
    "llama4": Recipe(
        "llama4_text",
        {
            **EXPERTS,
            **HEAD,
            "intermediate_size_mlp": 256,
            "interleave_moe_layer_step": 1,
            "num_hidden_layers": 4,
            "attention_chunk_size": 64,
            "num_experts_per_tok": 1,
            "moe_layers": None,
        },
        "llama4",
    ),
    "mistral": Recipe("mistral", {**HEAD, "sliding_window": None}),
    "mistral-tekken": Recipe("mistral", {**HEAD, "sliding_window": None}, "tekken"),
    "mixtral": Recipe("mixtral", {**EXPERTS, "sliding_window": None}),
    "ministral3": Recipe("ministral3", {**HEAD, **YARN}, "tekken"),
    "mistral3-wrap": Recipe(
        "mistral3", {**HEAD, **YARN, "model_type": "ministral3"}, "tekken", wrapped=True
    ),
    "smollm3": Recipe("smollm3", {"no_rope_layer_interval": 4}, "smollm"),
    "arcee": Recipe("arcee", {}, "llama-bpe"),
    "apertus": Recipe("apertus", {}, "tekken"),
    "seedoss": Recipe("seed_oss", HEAD, "seed-coder"),
    "bitnet": Recipe("bitnet", {"tie_word_embeddings": True}, "llama-bpe"),
    "jais2": Recipe("jais2", {}, "jais-2"),
    "mellum": Recipe("mellum", WINDOWED, "qwen2"),
    "laguna": Recipe("laguna", WINDOWED, "qwen2"),
    "youtu": Recipe("youtu", {**LATENT}, "youtu"),
}

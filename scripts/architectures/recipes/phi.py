"""Phi and gpt-oss."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import EXPERTS, HEAD, repeated, share
from architectures.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {
    "phi2": Recipe(
        "phi",
        {
            "partial_rotary_factor": 0.5,
            "intermediate_size": share(4),
            "num_key_value_heads": 4,
        },
        "phi-2",
    ),
    "phi3": Recipe("phi3", {"sliding_window": None, "original_max_position_embeddings": 4096}),
    "phi4": Recipe(
        "phi3",
        {
            "sliding_window": None,
            "original_max_position_embeddings": 4096,
            "num_key_value_heads": 1,
        },
        "dbrx",
        tokenizer_says={"tokenizer_class": "GPT2Tokenizer"},
    ),
    "phi3-long": Recipe(
        "phi3",
        {
            "sliding_window": 64,
            "max_position_embeddings": 8192,
            "original_max_position_embeddings": 1024,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "short_factor": repeated(1.0, share(1, 8)),
                "long_factor": repeated(2.0, share(1, 8)),
                "original_max_position_embeddings": 1024,
            },
        },
    ),
    "phimoe": Recipe(
        "phimoe",
        {
            **EXPERTS,
            "lm_head_bias": True,
            "attention_bias": True,
            "sliding_window": None,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "short_factor": repeated(1.0, share(1, 8)),
                "long_factor": repeated(2.0, share(1, 8)),
                "short_mscale": 1.2,
                "long_mscale": 1.2,
                "original_max_position_embeddings": 1024,
            },
        },
        says={"architectures": ["PhiMoEForCausalLM"]},
    ),
    "gptoss": Recipe(
        "gpt_oss",
        {
            **EXPERTS,
            **HEAD,
            "sliding_window": 64,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 15e4,
                "factor": 8.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 512,
            },
        },
        "gpt-4o",
    ),
}

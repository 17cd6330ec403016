"""Other dense models."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import HEAD, layer_types
from architectures.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {
    "olmo": Recipe("olmo", {}, "olmo"),
    "olmo2": Recipe("olmo2", {}, "dbrx"),
    "olmo3": Recipe("olmo3", {"sliding_window": 64, **layer_types(4, 4)}, "dbrx"),
    "exaone4": Recipe(
        "exaone4",
        {"sliding_window": 64, "sliding_window_pattern": 4, **layer_types(4, 4)},
        "exaone4",
    ),
    "exaone4-full": Recipe(
        "exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 4}, "exaone4"
    ),
    "cohere": Recipe("cohere", {"use_qk_norm": False, "tie_word_embeddings": True}, "command-r"),
    "cohere2": Recipe(
        "cohere2",
        {**HEAD, "sliding_window": 64, "tie_word_embeddings": True, **layer_types(4, 4)},
        "command-r",
        says={"rotary_pct": 1.0},
    ),
    "stablelm": Recipe("stablelm", {"partial_rotary_factor": 0.25}, "stablelm2"),
    "starcoder2": Recipe("starcoder2", {"sliding_window": None}, "starcoder"),
    "hunyuan": Recipe("hunyuan_v1_dense", HEAD, "hunyuan-dense"),
    "ernie45": Recipe("ernie4_5", HEAD),
    "hrm": Recipe("hrm_text", {**HEAD, "num_key_value_heads": 4}, "qwen2"),
    "nemotron": Recipe("nemotron", {"partial_rotary_factor": 0.5}),
}

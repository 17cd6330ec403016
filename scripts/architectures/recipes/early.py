"""Early models."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import share
from architectures.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {
    "falcon": Recipe(
        "falcon",
        {"new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False},
        "falcon",
    ),
    "gpt2": Recipe(
        "gpt2",
        {"n_embd": share(1), "n_layer": 4, "n_head": 4, "n_positions": 1024, "n_inner": share(1)},
        "gpt-2",
        says={"n_ctx": 1024},
    ),
    "starcoder1": Recipe(
        "gpt_bigcode",
        {"n_embd": share(1), "n_layer": 4, "n_head": 4, "n_positions": 1024, "n_inner": share(4)},
        "starcoder",
    ),
    "gptneox": Recipe("gpt_neox", {"rotary_pct": 0.25}, "olmo", says={"rotary_pct": 0.25}),
    "bloom": Recipe("bloom", {"n_layer": 4, "n_head": 4}, "bloom"),
    "mpt": Recipe(
        "mpt",
        {
            "d_model": share(1),
            "n_heads": 4,
            "n_layers": 4,
            "expansion_ratio": 2,
            "max_seq_len": 1024,
        },
        "mpt",
    ),
}

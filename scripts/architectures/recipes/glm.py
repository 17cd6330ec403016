"""GLM, MiniMax and MiMo."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import DEEPSEEK, EXPERTS, HEAD, layer_types
from architectures.recipe import Recipe, Values

TURNED: Values = {**HEAD, "partial_rotary_factor": 0.5, "attention_bias": True}
NORMED: Values = {
    **DEEPSEEK,
    **HEAD,
    "num_key_value_heads": 2,
    "partial_rotary_factor": 0.5,
    "use_qk_norm": True,
}
MTP: Values = {"num_nextn_predict_layers": 1}
SPARSE: Values = {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}
RECIPES: Mapping[str, Recipe] = {
    "glm4": Recipe("glm4", TURNED, "glm4"),
    "chatglm-glm": Recipe("glm", TURNED, "glm4"),
    "glm4moe": Recipe("glm4_moe", NORMED, "glm4"),
    "glm4moe-mtp": Recipe("glm4_moe", {**NORMED, **MTP}, "glm4", drafts=True, says=MTP),
    "glm4moelite": Recipe("glm4_moe_lite", {**DEEPSEEK, **SPARSE}, "glm4"),
    "glmdsa": Recipe(
        "glm_moe_dsa",
        {**DEEPSEEK, **SPARSE, "index_n_heads": 4, "index_head_dim": 64, "index_topk": 64},
        "glm4",
    ),
    "minimaxm2": Recipe(
        "minimax_m2",
        {**EXPERTS, **HEAD, "rotary_dim": 32, "partial_rotary_factor": 0.5},
        "minimax-m2",
        says={"scoring_func": "sigmoid"},
    ),
    "minimax": Recipe(
        "minimax", {**EXPERTS, **HEAD, **layer_types(4, 2, "linear_attention")}, "qwen2"
    ),
    "minimaxm3": Recipe(
        "minimax_m3_vl_text",
        {**EXPERTS, **HEAD},
        "minimax-m2",
        says={"architectures": ["MiniMaxM3SparseForCausalLM"]},
    ),
    "mimo2": Recipe("mimo_v2_flash", {**EXPERTS, **HEAD, "sliding_window": 64}, "qwen2"),
    "solaropen": Recipe("solar_open", {**DEEPSEEK, **HEAD, "num_key_value_heads": 2}, "solar-open"),
}

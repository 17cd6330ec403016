"""GLM, MiniMax and MiMo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import DEEPSEEK, EXPERTS, HEAD, INDEXED, SIGMOID, layer_types
from architectures.recipe import Recipe, Values, recipe

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
    "glm4": recipe("glm4", "glm4", TURNED),
    "chatglm-glm": recipe("glm", "glm4", TURNED),
    "glm4moe": recipe("glm4_moe", "glm4", NORMED),
    "glm4moe-mtp": replace(recipe("glm4_moe", "glm4", NORMED, MTP), drafts=True, says=MTP),
    "glm4moelite": recipe("glm4_moe_lite", "glm4", DEEPSEEK, SPARSE),
    "glmdsa": recipe("glm_moe_dsa", "glm4", DEEPSEEK, SPARSE, INDEXED),
    "minimaxm2": replace(
        recipe("minimax_m2", "minimax-m2", EXPERTS, HEAD, rotary_dim=32, partial_rotary_factor=0.5),
        says=SIGMOID,
    ),
    "minimax": recipe("minimax", "qwen2", EXPERTS, HEAD, layer_types(4, 2, "linear_attention")),
    "minimaxm3": replace(
        recipe("minimax_m3_vl_text", "minimax-m2", EXPERTS, HEAD),
        says={"architectures": ["MiniMaxM3SparseForCausalLM"]},
    ),
    "mimo2": recipe("mimo_v2_flash", "qwen2", EXPERTS, HEAD, sliding_window=64),
    "solaropen": recipe("solar_open", "solar-open", DEEPSEEK, HEAD, num_key_value_heads=2),
}

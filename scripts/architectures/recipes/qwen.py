"""Qwen, with its linear attention and drafting blocks."""

from __future__ import annotations

from collections.abc import Mapping

from architectures.parts import EXPERTS, HEAD, LINEAR, SECTIONS, share
from architectures.recipe import Recipe, Values

SPARSE: Values = {**EXPERTS, "decoder_sparse_step": 1, "mlp_only_layers": []}
SHARING: Values = {**EXPERTS, "shared_expert_intermediate_size": 128}
MIXED: Values = {**LINEAR, **SECTIONS}
NO_MTP: Values = {"mtp_num_hidden_layers": 0}
MTP: Values = {"mtp_num_hidden_layers": 1}
RECIPES: Mapping[str, Recipe] = {
    "qwen2": Recipe("qwen2", {}, "qwen2"),
    "qwen2-tied": Recipe("qwen2", {"tie_word_embeddings": True}, "qwen2"),
    "qwen2moe": Recipe("qwen2_moe", {**SPARSE, **SHARING}, "qwen2"),
    "qwen3": Recipe("qwen3", HEAD, "qwen2"),
    "qwen3moe": Recipe("qwen3_moe", {**SPARSE, **HEAD, "norm_topk_prob": True}, "qwen2"),
    "qwen35": Recipe("qwen3_5_text", MIXED, "qwen35", trunk=True, says=NO_MTP),
    "qwen35-mtp": Recipe("qwen3_5_text", {**MIXED, **MTP}, "qwen35", drafts=True, says=MTP),
    "qwen35-wrap": Recipe("qwen3_5", MIXED, "qwen35", wrapped=True, trunk=True, says=NO_MTP),
    "qwen35moe": Recipe(
        "qwen3_5_moe_text", {**MIXED, **SHARING}, "qwen35", trunk=True, says=NO_MTP
    ),
    "qwen35moe-mtp": Recipe(
        "qwen3_5_moe_text", {**MIXED, **SHARING, **MTP}, "qwen35", drafts=True, says=MTP
    ),
    "qwen35moe-wrap": Recipe(
        "qwen3_5_moe", {**MIXED, **SHARING}, "qwen35", wrapped=True, trunk=True, says=NO_MTP
    ),
    "qwen3next": Recipe(
        "qwen3_next",
        {**LINEAR, **SHARING, "partial_rotary_factor": 0.25},
        "qwen2",
        trunk=True,
        says=NO_MTP,
    ),
    "qwen4exp": Recipe(
        "qwen4_exp_text",
        {
            **MIXED,
            **SHARING,
            "hc_count": 4,
            "hc_lowrank": 32,
            "ple_layer_ids": [2],
            "ple_embed_dim": share(1),
            "ngram_size": 3,
            "heads_per_ngram": 2,
            "ngram_vocab_size_base": 2000,
            "make_ngram_vocab_size_divisible_by": 64,
            "split_ngram_parts": 4,
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 64,
            "indexer_budget": 64,
            "indexer_compress_ratio": 2,
        },
        "qwen35",
    ),
    "qwen2vl": Recipe(
        "qwen2_vl",
        {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [share(1, 32), share(3, 64), share(3, 64)],
            }
        },
        "qwen2",
        wrapped=True,
    ),
    "qwen3vl": Recipe(
        "qwen3_vl",
        {
            **HEAD,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [12, 10, 10],
                "mrope_interleaved": True,
            },
        },
        "qwen2",
        wrapped=True,
    ),
}

"""Qwen, with its linear attention and drafting blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import EXPERTS, HEAD, LINEAR, SECTIONS, rope, share
from architectures.recipe import Recipe, Values, recipe

SPARSE: Values = {**EXPERTS, "decoder_sparse_step": 1, "mlp_only_layers": []}
SHARING: Values = {**EXPERTS, "shared_expert_intermediate_size": 128}
MIXED: Values = {**LINEAR, **SECTIONS}
NO_MTP: Values = {"mtp_num_hidden_layers": 0}
MTP: Values = {"mtp_num_hidden_layers": 1}
RECIPES: Mapping[str, Recipe] = {
    "qwen2": recipe("qwen2", "qwen2"),
    "qwen2-tied": recipe("qwen2", "qwen2", tie_word_embeddings=True),
    "qwen2moe": recipe("qwen2_moe", "qwen2", SPARSE, SHARING),
    "qwen3": recipe("qwen3", "qwen2", HEAD),
    "qwen3moe": recipe("qwen3_moe", "qwen2", SPARSE, HEAD, norm_topk_prob=True),
    "qwen35": replace(recipe("qwen3_5_text", "qwen35", MIXED), trunk=True, says=NO_MTP),
    "qwen35-mtp": replace(recipe("qwen3_5_text", "qwen35", MIXED, MTP), drafts=True, says=MTP),
    "qwen35-wrap": replace(
        recipe("qwen3_5", "qwen35", MIXED), wrapped=True, trunk=True, says=NO_MTP
    ),
    "qwen35moe": replace(
        recipe("qwen3_5_moe_text", "qwen35", MIXED, SHARING), trunk=True, says=NO_MTP
    ),
    "qwen35moe-mtp": replace(
        recipe("qwen3_5_moe_text", "qwen35", MIXED, SHARING, MTP), drafts=True, says=MTP
    ),
    "qwen35moe-wrap": replace(
        recipe("qwen3_5_moe", "qwen35", MIXED, SHARING), wrapped=True, trunk=True, says=NO_MTP
    ),
    "qwen3next": replace(
        recipe("qwen3_next", "qwen2", LINEAR, SHARING, partial_rotary_factor=0.25),
        trunk=True,
        says=NO_MTP,
    ),
    "qwen4exp": recipe(
        "qwen4_exp_text",
        "qwen35",
        MIXED,
        SHARING,
        hc_count=4,
        hc_lowrank=32,
        ple_layer_ids=[2],
        ple_embed_dim=share(1),
        ngram_size=3,
        heads_per_ngram=2,
        ngram_vocab_size_base=2000,
        make_ngram_vocab_size_divisible_by=64,
        split_ngram_parts=4,
        indexer_n_heads=2,
        indexer_kv_heads=1,
        indexer_head_dim=64,
        indexer_budget=64,
        indexer_compress_ratio=2,
    ),
    "qwen2vl": replace(
        recipe(
            "qwen2_vl",
            "qwen2",
            rope("default", 1e6, mrope_section=[share(1, 32), share(3, 64), share(3, 64)]),
        ),
        wrapped=True,
    ),
    "qwen3vl": replace(
        recipe(
            "qwen3_vl",
            "qwen2",
            HEAD,
            rope("default", 1e6, mrope_section=[12, 10, 10], mrope_interleaved=True),
        ),
        wrapped=True,
    ),
}

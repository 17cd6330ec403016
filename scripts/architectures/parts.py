"""Parts of configurations that many recipes share."""

from __future__ import annotations

from collections.abc import Callable

from architectures.recipe import Values


def share(parts: int, of: int = 1) -> Callable[[int], int]:
    """Name a size that is a share of the model's width."""
    return lambda width: width * parts // of


def repeated(value: float, length: Callable[[int], int]) -> Callable[[int], list[float]]:
    return lambda width: [value] * length(width)


def layer_types(count: int, every: int, other: str = "sliding_attention") -> Values:
    """Make a list of layers with full attention in every so many."""
    full = ["full_attention" if (at + 1) % every == 0 else other for at in range(count)]
    return {"layer_types": full}


def rope(kind: str, theta: float, **values: object) -> Values:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **values}}


VOCABULARY = 768  # tokens
HEAD: Values = {"head_dim": 64}
EXPERTS: Values = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
}
LINEAR: Values = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "num_hidden_layers": 8,
    **HEAD,
}
SECTIONS = rope(
    "default", 1e6, mrope_section=[4, 2, 2], mrope_interleaved=True, partial_rotary_factor=0.25
)
WINDOW: Values = {"sliding_window": 64, **layer_types(4, 4)}
INDEXED: Values = {"index_n_heads": 4, "index_head_dim": 64, "index_topk": 64}
SIGMOID: Values = {"scoring_func": "sigmoid"}
LATENT: Values = {  # multi-head latent attention (MLA)
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "head_dim": 32,
    "num_key_value_heads": 4,
}
DEEPSEEK: Values = {
    **LATENT,
    **EXPERTS,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
}
MAMBA: Values = {  # layers of hybrids, as Granite and Bamba name their sizes
    "mamba_n_heads": 8,
    "mamba_d_head": share(1, 4),
    "mamba_d_state": 64,
    "mamba_n_groups": 1,
    "mamba_expand": 2,
}
GEMMA: Values = {**HEAD, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}


def base(width: int) -> dict[str, object]:
    """Return what all configurations begin with."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "intermediate_size": width,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    }

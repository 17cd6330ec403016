"""An EAGLE-3 head as it was trained, before an engine's format is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands that need no engine start without numpy
    import numpy as np
    from numpy.typing import NDArray

EPSILON, ROPE_BASE = 1e-6, 10_000.0
PUBLISHED_NAMES = {  # in safetensors, by llama.cpp's names; both without `.weight`
    "fc": "fc",
    "blk.0.attn_norm": "midlayer.input_layernorm",
    "blk.0.attn_norm_2": "midlayer.hidden_norm",
    "blk.0.attn_q": "midlayer.self_attn.q_proj",
    "blk.0.attn_k": "midlayer.self_attn.k_proj",
    "blk.0.attn_v": "midlayer.self_attn.v_proj",
    "blk.0.attn_output": "midlayer.self_attn.o_proj",
    "blk.0.ffn_norm": "midlayer.post_attention_layernorm",
    "blk.0.ffn_gate": "midlayer.mlp.gate_proj",
    "blk.0.ffn_up": "midlayer.mlp.up_proj",
    "blk.0.ffn_down": "midlayer.mlp.down_proj",
    "output_norm": "norm",
    "output": "lm_head",
}


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The sizes of a head of one layer."""

    width: int  # of a state, as its target's
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    drafted: int  # tokens that it can draft
    epsilon: float = EPSILON  # of its norms
    rope_base: float = ROPE_BASE

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its tensors, rows first, by llama.cpp's names without `.weight`."""
        width, block = self.width, "blk.0"
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        return {
            "fc": (width, 3 * width),
            f"{block}.attn_norm": (width,),
            f"{block}.attn_norm_2": (width,),
            f"{block}.attn_q": (queries, 2 * width),
            f"{block}.attn_k": (keys, 2 * width),
            f"{block}.attn_v": (keys, 2 * width),
            f"{block}.attn_output": (width, queries),
            f"{block}.ffn_norm": (width,),
            f"{block}.ffn_gate": (self.feed_forward, width),
            f"{block}.ffn_up": (self.feed_forward, width),
            f"{block}.ffn_down": (width, self.feed_forward),
            "output_norm": (width,),
            "output": (self.drafted, width),
        }


@dataclass(frozen=True, slots=True)
class TrainedHead:
    """The weights of a head; queries and keys are rotated by halves, as in safetensors."""

    shape: HeadShape
    layers: tuple[int, ...]  # of its target, whose inputs it reads
    tokens: NDArray[np.int64]  # those that it can draft, rising
    tensors: Mapping[str, NDArray[np.float32]]  # by the names of `HeadShape.sizes`
    vocabulary: int  # of its target
    context: int  # tokens that its target was trained for

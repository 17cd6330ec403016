"""The parts of a model that its head uses or reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module

UNLIKELY = 30.0  # logits by which tokens that a head lacks or did not choose lie below the others


def body(target: Module) -> Module:
    """Find the part of a model that has its embedding and its layers."""
    for module in target.modules():  # type: ignore[no-untyped-call]
        if "embed_tokens" in module and "layers" in module and "norm" in module:
            part: Module = module
            return part
    raise ValueError(f"a {type(target).__name__} of mlx-lm has no layers to read")


def output(target: Module) -> Callable[[mx.array], mx.array]:
    """Find how a target computes logits from its last state."""
    text = target.language_model if "language_model" in target else target
    compute: Callable[[mx.array], mx.array]
    compute = text.lm_head.__call__ if "lm_head" in text else body(text).embed_tokens.as_linear
    return compute


def spread(logits: mx.array, places: mx.array, vocabulary: int) -> mx.array:
    """Put logits of some tokens at their places among all; the others are unlikely."""
    low = logits.min(axis=-1, keepdims=True) - UNLIKELY
    full = mx.broadcast_to(low, (len(logits), vocabulary))
    return mx.put_along_axis(full, mx.broadcast_to(places, logits.shape), logits, axis=-1)


def described(config: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Read the settings of a head's layers, for a definition of another time and kind."""
    text = {**config, **config.get("transformer_layer_config", {}), "model_type": kind}
    rope = text.get("rope_parameters") or {}
    if "rope_theta" in rope:
        text["rope_theta"] = rope["rope_theta"]
    if rope.get("rope_type", "default") != "default":
        text["rope_scaling"] = rope
    return text

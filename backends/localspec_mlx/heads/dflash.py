"""DFlash: a few layers of Qwen3's kind, which fill a block of masks behind the newest token.

Keys and values of the text come from some layers of its target; those of the block from the block
itself, whose tokens see each other. So a block is read together with what is new of the text, and
taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models import qwen3

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.heads.head import Part, Read
from localspec_mlx.heads.own_keys import apart, padded
from localspec_mlx.heads.target import body, described, output
from localspec_mlx.slots import CacheSlots


class DFlash(Module):
    def __init__(self, target: Module, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        settings = qwen3.ModelArgs.from_dict(described(config, "qwen3"))
        width, inner, own = settings.hidden_size, body(target), config["dflash_config"]
        reads = len(own["target_layer_ids"]) * inner.norm.weight.shape[-1]
        self.fc = Linear(reads, width, bias=False)
        self.hidden_norm = RMSNorm(width, settings.rms_norm_eps)
        self.layers = [qwen3.TransformerBlock(settings) for _ in range(settings.num_hidden_layers)]
        self.norm = RMSNorm(width, settings.rms_norm_eps)
        self.size = int(config.get("block_size", 16))
        self.windows = tuple(
            config["sliding_window"] if kind == "sliding_attention" else 0
            for kind in config.get("layer_types") or ["full_attention"] * len(self.layers)
        )
        self._causal = bool(own.get("causal", False))
        self._masks = mx.full(self.size - 1, own["mask_token_id"], mx.int32)
        self._embed = inner.embed_tokens.__call__
        self._scale = vars(inner).get("embed_scale", 1.0)
        self.logits = output(target)

    def context(self, states: mx.array) -> mx.array:
        """Make what keys and values of the text are computed from."""
        found: mx.array = self.hidden_norm(self.fc(states))
        return found

    def keep(self, context: mx.array, caches: Sequence[Any]) -> None:
        """Keep keys and values of a text; MLX computes nothing else of it."""
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.self_attn(context, "causal", cache)

    def fill(
        self, newest: mx.array, context: mx.array, widths: list[int], caches: Sequence[Any]
    ) -> mx.array:
        """Read texts and blocks behind them; return the blocks' last states but for the newest."""
        rows, most = len(widths), context.shape[1]
        block = mx.concatenate(
            [newest[:, None], mx.broadcast_to(self._masks, (rows, self.size - 1))], axis=1
        )
        starts = mx.array(widths)[:, None]
        places = mx.arange(most + self.size)  # where each token of a text with its block lies
        order = mx.where(places < starts, places, most + places - starts)
        order = mx.minimum(order, most + self.size - 1)[..., None]
        blocks = (starts + mx.arange(self.size))[..., None]
        x = self._embed(block) * self._scale
        for layer, window, cache in zip(self.layers, self.windows, caches, strict=True):
            both = mx.concatenate([context, layer.input_layernorm(x)], axis=1)
            both = mx.take_along_axis(both, order, axis=1)
            mask = cache.view.block_mask(starts + self.size, window, self._causal)
            x = x + mx.take_along_axis(layer.self_attn(both, mask, cache), blocks, axis=1)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        found: mx.array = self.norm(x)[:, 1:]
        return found

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        """Leave away what is the target's."""
        return {
            name.removeprefix("model."): each
            for name, each in weights.items()
            if "embed_tokens" not in name and "lm_head" not in name
        }


class Blocks:
    """Fills a block as a draft begins, and hands it out token by token."""

    def __init__(self, head: DFlash, blueprint: Blueprint, count: int) -> None:
        self.slots = CacheSlots(blueprint, count)
        self.logits = head.logits
        self.limit = head.size - 1
        self._head = head
        self._blueprint = blueprint

    def take_in(self, parts: Mapping[int, Part]) -> None:
        for slot, part in parts.items():
            context = self._head.context(part.states[None])
            self.slots.compute([slot], [len(part.states)], partial(self._head.keep, context))

    def read(self, parts: Mapping[int, Part]) -> Read:
        if self._blueprint.sharing != "ragged" and len(parts) > 1:
            return apart(self.read, parts)
        found = [part.states for part in parts.values()]
        if found[0].ndim == 2:
            filled = self._fill(parts)
            return Read(filled, filled[:, 0])
        for slot in parts:  # counted, as every token is
            self.slots.compute([slot], [1], lambda layers: None)
        rest = mx.concatenate(found)[:, 1:]
        return Read(rest, rest[:, 0])

    def _fill(self, parts: Mapping[int, Part]) -> mx.array:
        widths = [len(part.states) for part in parts.values()]
        newest = mx.concatenate([part.tokens[-1:] for part in parts.values()])
        context = self._head.context(padded([part.states for part in parts.values()]))
        filled = self.slots.compute(
            list(parts),
            [width + self._head.size for width in widths],
            lambda layers: self._head.fill(newest, context, widths, layers),
        )
        for slot in parts:
            self.slots.truncate(slot, self.slots.length(slot) - self._head.size)
        return filled


def filled_by(config: Mapping[str, Any], layers: int) -> Sequence[int]:
    """List the layers of a target whose outputs are read, by their numbers from 0."""
    found = [int(at) for at in config["dflash_config"]["target_layer_ids"]]
    if strange := [at + 1 for at in found if not 0 <= at < layers]:
        raise ValueError(f"it reads layer {strange[0]} of a model that has {layers}")
    return found

"""DFlash: a few layers of Qwen3's kind, which fill a block of masks after the newest token.

Keys and values of the text come from some layers of its target; those of the block from the block
itself, whose tokens see each other. So a block is read together with what is new of the text, and
taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models import qwen3

from localspec_mlx.blueprint import Blueprint
from localspec_mlx.heads.own_keys import apart, padded
from localspec_mlx.heads.reader import Part, Read
from localspec_mlx.heads.successors import BlockConvolution, successors
from localspec_mlx.heads.target import body, described, output
from localspec_mlx.slots import CacheSlots

Sublayer = Callable[[mx.array], mx.array]
# Settings of which the layers here know one value.
USUAL = {"attention_sink_bias": False, "rope_is_neox_style": True}


class DFlash(Module):
    def __init__(self, target: Module, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        settings = qwen3.ModelArgs.from_dict(described(config, "qwen3"))
        width, inner, own = settings.hidden_size, body(target), own_settings(config)
        reads = len(own["target_layer_ids"]) * inner.norm.weight.shape[-1]
        self.fc = Linear(reads, width, bias=False)
        self.hidden_norm = RMSNorm(width, settings.rms_norm_eps)
        self.layers = [qwen3.TransformerBlock(settings) for _ in range(settings.num_hidden_layers)]
        self.norm = RMSNorm(width, settings.rms_norm_eps)
        if table := successors(own, settings.vocab_size, width):
            self[table[0]] = table[1]
        self._table_name = table[0] if table else ""
        if "conv_kernel_size" in own:
            convolve(self.layers, width, own["conv_kernel_size"], own["conv_group_size"])
        # DSpark counts what it drafts, and drafts at the newest token's place already.
        spark = "markov_rank" in own
        self.first = 0 if spark and own.get("sample_from_anchor", True) else 1
        counted = bool(own.get("dspark_bonus_anchor", not spark))
        self.drafts = int(own.get("block_size", 16)) - counted
        self.size = self.drafts + self.first
        self.windows = tuple(
            own["sliding_window"] if kind == "sliding_attention" else 0
            for kind in config.get("layer_types") or ["full_attention"] * len(self.layers)
        )
        self._causal = bool(own.get("causal", False))
        self._masks = mx.full(self.size - 1, own["mask_token_id"], mx.int32)
        self._embed = inner.embed_tokens.__call__
        self._scale = vars(inner).get("embed_scale", 1.0) * own.get("input_embedding_scale", 1.0)
        self._output, self._times = output(target), own.get("output_multiplier", 1.0)
        self._cap = own.get("final_logit_softcapping")

    def before(self, tokens: mx.array) -> mx.array:
        """Look up what a place's logits depend on of the token before it: [texts, numbers]."""
        table = self.get(self._table_name)
        before: mx.array = tokens[:, None][:, :0] if table is None else table.before(tokens)
        return before

    def logits(self, outputs: mx.array) -> mx.array:
        width = self.norm.weight.shape[0]
        states, before = outputs[:, :width], outputs[:, width:]
        logits: mx.array = self._output(states) * self._times
        if self._cap:
            logits = mx.tanh(logits / self._cap) * self._cap
        table = self.get(self._table_name)
        return logits if table is None else table.adjusted(logits, states, before)

    def context(self, states: mx.array) -> mx.array:
        """Make what keys and values of the text are computed from."""
        context: mx.array = self.hidden_norm(self.fc(states))
        return context

    def keep(self, context: mx.array, caches: Sequence[Any]) -> None:
        """Keep keys and values of a text; MLX computes nothing else of it."""
        for layer, cache in zip(self.layers, caches, strict=True):
            layer.self_attn(context, "causal", cache)

    def fill(
        self, newest: mx.array, context: mx.array, widths: mx.array, caches: Sequence[Any]
    ) -> mx.array:
        """Read texts and blocks after them; return the blocks' last states but for the newest."""
        rows, most = len(widths), context.shape[1]
        block = mx.concatenate(
            [newest[:, None], mx.broadcast_to(self._masks, (rows, self.size - 1))], axis=1
        )
        starts = widths[:, None]
        places = mx.arange(most + self.size)  # where each token of a text with its block lies
        order = mx.where(places < starts, places, most + places - starts)
        order = mx.minimum(order, most + self.size - 1)[..., None]
        blocks = (starts + mx.arange(self.size))[..., None]
        x = self._embed(block) * self._scale
        for layer, window, cache in zip(self.layers, self.windows, caches, strict=True):
            mask = cache.view.block_mask(starts + self.size, window, self._causal)

            def attend(
                x: mx.array, layer: Any = layer, mask: mx.array = mask, cache: Any = cache
            ) -> mx.array:
                both = mx.concatenate([context, x], axis=1)
                both = mx.take_along_axis(both, order, axis=1)
                return mx.take_along_axis(layer.self_attn(both, mask, cache), blocks, axis=1)

            x = x + convolved(layer, "attention_conv", attend)(layer.input_layernorm(x))
            x = x + convolved(layer, "mlp_conv", layer.mlp)(layer.post_attention_layernorm(x))
        filled: mx.array = self.norm(x)[:, self.first :]
        return filled

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        """Leave out what is the target's."""
        return {
            name.removeprefix("model.") + (".weight" if name.endswith("_codebook") else ""): array
            for name, array in weights.items()
            if not any(part in name for part in ("embed_tokens", "lm_head", "confidence_head"))
        }


def convolve(layers: Sequence[Module], width: int, length: int, group: int) -> None:
    """Give layers the convolutions of DFlash 2."""
    for layer in layers:
        for name in ("attention_conv", "mlp_conv"):
            layer[name] = BlockConvolution(width, length, group)


def own_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gather settings, which lie in two places; refuse those that change what is computed."""
    own = {**config, **config["dflash_config"]}
    own["sliding_window"] = own.get("swa_window_size", own.get("sliding_window"))
    own["causal"] = own.get("causal", own.get("dflash_query_causal", False))
    for name, usual in USUAL.items():
        if own.get(name, usual) != usual:
            raise ValueError(f"{name} is {own[name]!r}, of which only {usual!r} is known")
    return own


def convolved(layer: Any, name: str, by: Sublayer) -> Sublayer:
    """Mix the places of a block ahead of a sublayer and after it, where a layer does so."""
    if name not in layer:
        return by

    def mixed(x: mx.array) -> mx.array:
        kernels = layer[name].kernels(x)
        computed = by(layer[name].mixed(x, kernels[:, :, 0]))
        done: mx.array = layer[name].mixed(computed, kernels[:, :, 1])
        return done

    return mixed


class Blocks:
    """Fills a block as a draft begins, and hands it out token by token: to texts in step."""

    def __init__(self, head: DFlash, blueprint: Blueprint, count: int) -> None:
        self.slots = CacheSlots(blueprint, count)
        self.logits = head.logits
        self.limit = head.drafts
        self._head = head
        self._blueprint = blueprint

    def take_in(self, parts: Mapping[int, Part]) -> None:
        for slot, part in parts.items():
            context = self._head.context(part.states[None])
            self.slots.compute([slot], [len(part.states)], partial(self._head.keep, context))

    def read(self, parts: Mapping[int, Part]) -> Read:
        if self._blueprint.sharing != "ragged" and len(parts) > 1:
            return apart(self.read, parts)
        newest = mx.stack([part.tokens[part.newest] for part in parts.values()])
        states = [part.states for part in parts.values()]
        assert (
            len({part_states.shape[1] if part_states.ndim > 2 else 0 for part_states in states})
            == 1
        )
        if states[0].ndim == 2:
            filled = self._fill(parts, newest)
        else:
            for slot in parts:  # counted, as every token is
                self.slots.compute([slot], [1], lambda layers: None)
            filled = mx.concatenate(states)[:, 1:]
        return Read(filled, mx.concatenate([filled[:, 0], self._head.before(newest)], axis=-1))

    def _fill(self, parts: Mapping[int, Part], newest: mx.array) -> mx.array:
        widths = [len(part.states) for part in parts.values()]
        ends = mx.array([part.newest for part in parts.values()]) + 1
        context = self._head.context(padded([part.states for part in parts.values()]))
        filled = self.slots.compute(
            list(parts),
            [width + self._head.size for width in widths],
            lambda layers: self._head.fill(newest, context, ends, layers),
        )
        for slot in parts:
            self.slots.truncate(slot, self.slots.length(slot) - self._head.size)
        return filled


def filled_by(config: Mapping[str, Any], layers: int) -> Sequence[int]:
    """List the layers of a target whose outputs are read, by their numbers from 0."""
    layer_ids = [int(at) for at in config["dflash_config"]["target_layer_ids"]]
    if strange := [at + 1 for at in layer_ids if not 0 <= at < layers]:
        raise ValueError(f"it reads layer {strange[0]} of a model that has {layers}")
    return layer_ids

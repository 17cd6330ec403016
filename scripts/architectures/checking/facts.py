"""Facts of a model by transformers' configuration, to compare with `localspec info`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STATES = ("linear_attention", "mamba", "conv", "both")
FULL = ("full_attention", "attention", "both")
WINDOWED = ("sliding_attention", "chunked_attention")
KINDS = {*STATES, *FULL, *WINDOWED, "none"}
PATTERN = {"M": "mamba", "*": "attention"}  # of Nemotron-H; other layers are feed-forward
RECURRENT = ("mamba", "mamba2", "falcon_mamba")
CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length")
WIDE = 2  # bytes of a key or value in 16 bits
EVERY_HEAD = ("bloom", "gpt2", "gpt_neox", "mpt")  # has keys and values of its own
OTHER_WINDOWS = ("exaone4",)  # are taken by llama.cpp where there are 64 layers
OTHER_LENGTH = ("bloom", "falcon", "glm")  # is written by llama.cpp's converter
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
ACTIVE = ("num_experts_per_tok", "moe_k", "top_k_experts", "moe_topk")


@dataclass(frozen=True, slots=True)
class TransformersConfig:
    """A configuration, in which families give the same thing different names."""

    values: Mapping[str, object]

    @classmethod
    def read(cls, folder: Path) -> TransformersConfig:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return cls({**values, **values.get("text_config", {})})

    def number(self, *names: str) -> int:
        """Read the first of these numbers that is given, 0 if none is."""
        values = (self.values.get(name) for name in names)
        return next((value for value in values if isinstance(value, int) and value), 0)

    def listed(self, name: str) -> list[object]:
        value = self.values.get(name)
        return value if isinstance(value, list) else []

    @property
    def layers(self) -> int:
        return self.number("num_hidden_layers", "n_layer", "n_layers", "num_layers")

    @property
    def width(self) -> int:
        return self.number("hidden_size", "n_embd", "d_model")

    @property
    def heads(self) -> int:
        return self.number("num_attention_heads", "n_head", "n_heads")

    @property
    def kv_heads(self) -> int:
        if self.values["model_type"] in EVERY_HEAD:
            return self.heads
        if self.values.get("multi_query") and not self.values.get("new_decoder_architecture"):
            return 1
        return self.number("num_key_value_heads", "num_kv_heads") or self.heads

    @property
    def head(self) -> int:
        return self.number("head_dim") or self.width // max(self.heads, 1)

    def at(self, layer: int) -> TransformersConfig:
        """The configuration of one layer, with its own values."""
        own = self.values.get("per_layer_config")
        more = own.get(str(layer), {}) if isinstance(own, dict) else {}
        return TransformersConfig({**self.values, **more})

    @property
    def latent(self) -> bool:
        return "kv_lora_rank" in self.values

    def looks_back(self) -> list[str]:
        """The kind of each layer's attention."""
        if layer_types := self.listed("layer_types"):
            return [str(kind) for kind in layer_types]
        if pattern := self.values.get("hybrid_override_pattern"):
            return [PATTERN.get(letter, "none") for letter in str(pattern)]
        if self.values["model_type"] in RECURRENT:
            return ["mamba"] * self.layers
        if self.values["model_type"] == "falcon_h1":
            return ["both"] * self.layers
        return ["attention" if self._attends(at) else "mamba" for at in range(self.layers)]

    def _attends(self, layer: int) -> bool:
        every, chosen = self.number("attn_layer_period"), self.listed("attn_layer_indices")
        if every:
            return layer % every == self.number("attn_layer_offset")
        return not chosen or layer in chosen


def expected(folder: Path) -> dict[str, object]:
    """Compute the figures of `localspec info --json`, as far as a configuration tells them."""
    config = TransformersConfig.read(folder)
    return {name: value for name, value in figures(config) if value is not None}


def figures(config: TransformersConfig) -> Iterator[tuple[str, object]]:
    """Compute figures by name; None where a configuration does not tell."""
    kinds = config.looks_back()
    yield "layers", config.layers or None
    yield "vocabulary", config.number("vocab_size") or None
    yield "embedding", config.width or None
    yield "recurrent_layers", sum(kind in STATES for kind in kinds)
    if has_length(config, kinds):
        yield "context", config.number(*CONTEXTS) or None
    experts = config.number(*EXPERTS)
    yield "experts", experts
    yield "active_experts", (config.number(*ACTIVE) or None) if experts else 0
    if config.values["model_type"] in OTHER_WINDOWS or not {*kinds} <= KINDS:
        return
    if "sliding_attention" in kinds:
        yield "window", config.number("sliding_window")
    if not config.latent:
        yield "kv_bytes_per_token", cache(config, kinds, FULL)
        yield "window_bytes_per_token", cache(config, kinds, WINDOWED)


def has_length(config: TransformersConfig, kinds: list[str]) -> bool:
    """Tell whether the converter writes the context length of the configuration."""
    stateful = any(kind in STATES for kind in kinds)  # where it may be any
    return not stateful and config.values["model_type"] not in OTHER_LENGTH


def cache(config: TransformersConfig, kinds: list[str], layers: Sequence[str]) -> int:
    """Compute a token's KV cache bytes in the layers of these kinds that keep their own."""
    own = config.layers - config.number("num_kv_shared_layers")
    return sum(
        2 * config.at(layer).kv_heads * config.at(layer).head * WIDE
        for layer, kind in enumerate(kinds[:own])
        if kind in layers
    )


def untrue(reported: Mapping[str, object], expected: Mapping[str, object]) -> Iterator[str]:
    """Yield where `info` tells something else; what it leaves out is none of it."""
    for name, value in expected.items():
        if name in reported and reported[name] != value:
            yield f"info says {name} {reported[name]}, the configuration {value}"

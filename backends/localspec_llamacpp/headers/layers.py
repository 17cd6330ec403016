"""Which layers of a model attend, slide and recur, as llama.cpp decides it."""

from __future__ import annotations

from dataclasses import dataclass

from localspec_llamacpp.headers.architectures import (
    HEADLESS_RECURRENT,
    INTERVALS,
    LISTED,
    NEMOTRON,
    NOT_GENERATIVE,
    RECURRENT,
    WINDOWS,
)
from localspec_llamacpp.headers.hyperparameters import MOST_LAYERS, Hyperparameters

Flags = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Layers:
    heads: tuple[int, ...]  # per layer, 0 where it has none
    kv_heads: tuple[int, ...]
    key: int  # numbers in a head's key
    value: int
    window_key: int  # the same in sliding-window layers
    window_value: int
    window: int  # tokens; 0: every layer sees everything
    windowed: Flags
    recurrent: Flags
    attends: Flags  # keeps keys and values

    @property
    def count(self) -> int:
        return len(self.heads)


def resolve(params: Hyperparameters) -> Layers:
    every = params.number("block_count")
    count = trunk(params, every)
    heads = params.per_layer("attention.head_count", every)
    kv_heads = heads
    if params.has("attention.head_count_kv"):
        kv_heads = params.per_layer("attention.head_count_kv", every)
    key, value = head_sizes(params, heads[0] if heads else 0)
    recurrent = recurrent_layers(params, kv_heads, every)[:count]
    attends = attending_layers(params, recurrent, every)
    window = window_tokens(params, count)
    loops = repetitions(params, count)
    return Layers(
        heads[:count] * loops,
        kv_heads[:count] * loops,
        key,
        value,
        params.number("attention.key_length_swa", key),
        params.number("attention.value_length_swa", value),
        window,
        (windowed_layers(params, attends) if window else (False,) * count) * loops,
        recurrent * loops,
        attends * loops,
    )


def trunk(params: Hyperparameters, every: int) -> int:
    """How many layers run for every token; those behind them only draft."""
    drafting = params.number("nextn_predict_layers")
    probe = f"blk.{every - drafting}.nextn.eh_proj.weight"
    if params.architecture == "deepseek4" and drafting:
        drafting *= any(tensor.name == probe for tensor in params.header.tensors)
    return max(every - drafting, 0) or every


def repetitions(params: Hyperparameters, count: int) -> int:
    """How often the layers run for each token, keeping something each time."""
    if params.architecture != "nanbeige":
        return 1
    loops = params.number("num_loops", 1)
    fits = 0 < loops * count <= MOST_LAYERS
    params.require(fits, "num_loops", loops, f"1 to {MOST_LAYERS} layers can be run")
    return loops


def head_sizes(params: Hyperparameters, heads: int) -> tuple[int, int]:
    if not heads and params.architecture != "plamo2":
        return 0, 0
    size = params.number("embedding_length") // heads if heads else 0
    key = params.number("attention.key_length", size)
    if params.architecture in ("kimi-k3", "glm5-next"):
        return key, params.number("attention.kv_lora_rank")
    return key, params.number("attention.value_length", size)


def recurrent_layers(params: Hyperparameters, kv_heads: tuple[int, ...], every: int) -> Flags:
    name = params.architecture
    if name in RECURRENT or name == "falcon-h1":
        return (True,) * every
    if name in HEADLESS_RECURRENT:
        return tuple(heads == 0 for heads in kv_heads)
    if name in NEMOTRON:
        widths = params.per_layer("feed_forward_length", every)
        return tuple(heads == width == 0 for heads, width in zip(kv_heads, widths, strict=True))
    if name not in INTERVALS:
        return (False,) * every
    if params.has("attention.recurrent_layers"):
        return tuple(map(bool, params.per_layer("attention.recurrent_layers", every)))
    interval = params.number("full_attention_interval", INTERVALS[name])
    params.require(interval > 0, "full_attention_interval", interval, "it must be at least 1")
    return tuple((layer + 1) % interval != 0 for layer in range(every))


def attending_layers(params: Hyperparameters, recurrent: Flags, every: int) -> Flags:
    name, count = params.architecture, len(recurrent)
    if name in RECURRENT or name in NOT_GENERATIVE:
        return (False,) * count
    if name == "falcon-h1":
        return (True,) * count
    if name in NEMOTRON:
        widths = params.per_layer("feed_forward_length", every)
        return tuple(not recurrent[layer] and not widths[layer] for layer in range(count))
    keeping = own_cache_layers(params, every)
    return tuple(not recurrent[layer] and layer < keeping for layer in range(count))


def own_cache_layers(params: Hyperparameters, every: int) -> int:
    """Layers from the first on with a cache of their own; later ones read an earlier one's."""
    if params.architecture == "gemma3n":
        return 20
    if params.architecture == "gemma4":
        return every - params.number("attention.shared_kv_layers")
    return every


def window_tokens(params: Hyperparameters, count: int) -> int:
    name, key = params.architecture, "attention.sliding_window"
    if name in ("lfm2", "deepseek4"):
        return params.number(key)
    rule = WINDOWS.get(name)
    if rule is None or (name == "exaone4" and count != 64):  # only its 32B slides
        return 0
    given = params.number(key, rule.default)
    return rule.size or given if given else 0


def windowed_layers(params: Hyperparameters, attends: Flags) -> Flags:
    if params.architecture in ("lfm2", "deepseek4"):
        return attends
    rule, count = WINDOWS.get(params.architecture, LISTED), len(attends)
    listed = params.listed("attention.sliding_window_pattern")
    if listed is not None or rule.every is None:
        flags = listed or ()
        return tuple(layer < len(flags) and flags[layer] != 0 for layer in range(count))
    every = params.number("attention.sliding_window_pattern", rule.every)
    if not every:
        return (True,) * count
    full = 0 if rule.full_first else every - 1
    return tuple(layer % every != full for layer in range(count))

"""Refuse what would make llama.cpp abort: it asserts where it could report.

Each rule was found by giving a child process models that break it, and seeing it die.
"""

from __future__ import annotations

import math
import re

from localspec_llamacpp.headers.architectures import (
    EQUAL_HEADS,
    EXPLICITLY_GATED,
    GATED,
    HYBRID,
    LATENT,
    NEMOTRON,
    RECURRENT,
    SECTIONED,
    SOME_ROTATION,
    TWO_SIZES,
    WHOLE_ROTATION,
    WINDOWS,
)
from localspec_llamacpp.headers.demands import check_demands
from localspec_llamacpp.headers.hyperparameters import MOST_LAYERS, REDO, Hyperparameters
from localspec_llamacpp.headers.layers import Layers
from localspec_llamacpp.headers.metadata import Header
from localspec_llamacpp.headers.quantisation import F32, NOT_FOR_WEIGHTS, TYPES

MOST_EXPERTS = 1024
MOST_WINDOW = 1 << 24  # from 2**31 on the engine runs out of memory
SCALINGS = ("none", "linear", "yarn", "longrope")
ALWAYS_F32 = re.compile(r"norm|\.bias$|\.ssm_(a|d|conv1d)|shortconv\.conv|lerp_fused|_ape\.")
LOOKUP = "tid2eid.weight"  # a table of expert numbers
HEADS = "attention.head_count"
KV_HEADS = "attention.head_count_kv"


def check_sizes(params: Hyperparameters) -> None:
    """What must hold before anything can be said of single layers."""
    layers, drafting = params.number("block_count"), params.number("nextn_predict_layers")
    known = f"1 to {MOST_LAYERS} layers can be read"
    params.require(0 < layers <= MOST_LAYERS, "block_count", layers, known)
    fits = drafting <= layers
    params.require(fits, "nextn_predict_layers", drafting, f"the model has {layers} layers")
    for key in ("context_length", "embedding_length"):
        params.require(params.number(key) > 0, key, params.number(key), "it must be at least 1")


def check_layers(params: Hyperparameters, layers: Layers) -> None:
    check_experts(params)
    check_scaling(params)
    check_epsilons(params)
    if params.architecture not in RECURRENT:
        check_heads(params, layers)
        check_head_sizes(params, layers)
        check_rotation(params, layers)
        check_sections(params, layers)
        check_windows(params, layers)
    check_hybrid(params, layers)
    check_demands(params, layers)


def check_experts(params: Hyperparameters) -> None:
    every, experts = params.number("block_count"), params.number("expert_count")
    used = params.per_layer("expert_used_count", every)
    most, least = max(used), min(busy_layers(params, used))
    if params.architecture in ("hunyuan_vl", "hunyuan-dense") and experts <= 1:
        experts = most = 0
    limit = f"at most {MOST_EXPERTS} can be read"
    params.require(experts <= MOST_EXPERTS, "expert_count", experts, limit)
    params.require(most <= experts, "expert_used_count", most, f"there are {experts} experts")
    if not experts:
        groups = params.number("expert_group_count")
        params.require(not groups, "expert_group_count", groups, "there are no experts")
        return
    params.require(least > 0, "expert_used_count", least, f"there are {experts} experts to use")
    check_groups(params, experts)
    key = "expert_gating_func"
    gating = params.number(key, 0 if params.architecture in GATED else 1)
    first = 1 if params.architecture in EXPLICITLY_GATED else 0
    params.require(first <= gating <= 4, key, gating, f"{first} to 4 are known")


def busy_layers(params: Hyperparameters, used: tuple[int, ...]) -> list[int]:
    """How many experts are used, in the layers that may have some."""
    if params.architecture not in NEMOTRON:
        return list(used)
    widths = params.per_layer("feed_forward_length", len(used))
    return [count for count, width in zip(used, widths, strict=True) if width] or [max(used)]


def check_groups(params: Hyperparameters, experts: int) -> None:
    groups, used = params.number("expert_group_count"), params.number("expert_group_used_count")
    fits = groups < experts and (groups < 2 or experts % groups == 0)
    params.require(fits, "expert_group_count", groups, f"it must divide {experts} experts")
    fits = groups < 2 or 0 < used < groups
    params.require(fits, "expert_group_used_count", used, f"there are {groups} groups")


def check_scaling(params: Hyperparameters) -> None:
    kind = params.text("rope.scaling.type") or "linear"
    params.require(kind in SCALINGS, "rope.scaling.type", kind, f"{', '.join(SCALINGS)} are known")


def check_epsilons(params: Hyperparameters) -> None:
    for name in ("layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon"):
        key = f"attention.{name}"
        found = params.real(key)
        fits = found is None or (math.isfinite(found) and found >= 0)
        params.require(fits, key, found, "it must be a small positive number")


def check_heads(params: Hyperparameters, layers: Layers) -> None:
    headless = params.architecture in HYBRID or params.architecture == "deci"
    if not headless:
        params.require(min(layers.heads) > 0, HEADS, min(layers.heads), "it must be at least 1")
    for heads, kv_heads in zip(layers.heads, layers.kv_heads, strict=True):
        if not kv_heads:
            params.require(headless, KV_HEADS, 0, f"each layer of {params.architecture} attends")
        elif heads or not headless:
            fits = heads % kv_heads == 0
            params.require(fits, KV_HEADS, kv_heads, f"it must divide {heads} heads")


def check_head_sizes(params: Hyperparameters, layers: Layers) -> None:
    embedding, heads = params.number("embedding_length"), layers.heads[0]
    if heads and not params.has("attention.key_length"):
        fits = embedding % heads == 0
        params.require(
            fits, "embedding_length", embedding, f"it must be a multiple of {heads} heads"
        )
    if not any(layers.heads[layer] for layer in range(layers.count) if layers.attends[layer]):
        return
    sizes = {"key": layers.key, "value": layers.value}
    if heads:
        for name, size in sizes.items():
            params.require(size > 0, f"attention.{name}_length", size, "it must be at least 1")
    if params.architecture in EQUAL_HEADS:
        wanted = f"values are of length {layers.value}, and this architecture needs the same"
        params.require(layers.key == layers.value, "attention.key_length", layers.key, wanted)
    if layers.window and params.architecture not in TWO_SIZES:
        windowed = {"key": layers.window_key, "value": layers.window_value}
        for name, size in sizes.items():
            fits, key = windowed[name] == size, f"attention.{name}_length_swa"
            params.require(fits, key, windowed[name], f"all layers must be alike: {size}")


def check_rotation(params: Hyperparameters, layers: Layers) -> None:
    key = "rope.dimension_count"
    if not layers.heads[0] or not layers.key:
        return
    rotated = params.number(key, layers.key)
    check_rotated(params, key, rotated, layers.key)
    if layers.window:
        key += "_swa"
        check_rotated(params, key, params.number(key, rotated), layers.window_key)
    if params.architecture in LATENT:
        check_latent(params, layers, rotated)


def check_rotated(params: Hyperparameters, key: str, rotated: int, size: int) -> None:
    wanted = f"it must be even and at most a head's {size}"
    params.require(rotated % 2 == 0 and rotated <= size, key, rotated, wanted)
    name = params.architecture
    some = name in SOME_ROTATION
    if name == "granitehybrid":
        some = params.flag("rope.scaling.finetuned", True)
    least = 4 if name == "step35" else 2 if some else 0
    params.require(rotated >= least, key, rotated, f"it must be at least {least}")
    if name in WHOLE_ROTATION:
        params.require(rotated == size, key, rotated, f"{name} rotates whole heads of {size}")


def check_latent(params: Hyperparameters, layers: Layers, rotated: int) -> None:
    """Keys are a latent and a rotated part; the latent alone serves as value."""
    key = "attention.key_length_mla"
    unpacked, values = params.number(key), params.number("attention.value_length_mla")
    if params.architecture in ("hy_v4", "kimi-k3", "kimi-linear"):
        params.require(min(unpacked, values) > 0, key, unpacked, "both lengths must be given")
    if not unpacked or not values:
        fits = rotated < layers.key
        params.require(fits, "rope.dimension_count", rotated, f"keys are {layers.key} long")
        return
    params.require(rotated < unpacked, key, unpacked, f"{rotated} of it are rotated")
    rank = params.number("attention.kv_lora_rank")
    wanted = f"it must be kv_lora_rank {rank} and {rotated} rotated ones"
    params.require(layers.key == rank + rotated, "attention.key_length", layers.key, wanted)


def check_sections(params: Hyperparameters, layers: Layers) -> None:
    key = "rope.dimension_sections"
    sections = params.listed(key) or ()
    if params.architecture in SECTIONED:
        params.require(any(sections[:3]), key, list(sections), "one of the first three is needed")
    size = layers.key
    if params.architecture in LATENT:
        size = params.number("rope.dimension_count") if params.architecture == "bailingmoe3" else 0
    fits = not sections or not size or sum(sections) <= size
    params.require(fits, key, list(sections), f"together they must not exceed a head's {size}")


def check_windows(params: Hyperparameters, layers: Layers) -> None:
    name, key = params.architecture, "attention.sliding_window"
    if name in ("afmoe", "llama4"):
        params.require(layers.window > 0, key, layers.window, f"{name} cannot do without")
    fits = layers.window <= MOST_WINDOW
    params.require(fits, key, layers.window, f"at most {MOST_WINDOW:,} tokens are plausible")
    if not layers.window or name not in WINDOWS:
        return
    key = "attention.sliding_window_pattern"
    params.require(any(layers.windowed), key, "without a windowed layer", "there is a window")
    if name == "dots3note":
        fits = not all(layers.windowed)
        params.require(fits, key, "without a full layer", f"{name} needs one")


def check_hybrid(params: Hyperparameters, layers: Layers) -> None:
    """An empty half of the two caches is not survived."""
    if params.architecture not in HYBRID:
        return
    recurrent, attending = sum(layers.recurrent), sum(layers.attends)
    wanted = f"{attending} of them attend and {recurrent} recur; both kinds are needed"
    params.require(min(recurrent, attending) > 0, "block_count", layers.count, wanted)


def check_weights(header: Header) -> None:
    """Norms, biases and the like are computed in float32 alone; no kernel takes integers."""
    for tensor in header.tensors:
        quant = TYPES[tensor.kind].name
        if tensor.kind != F32 and (len(tensor.shape) == 1 or ALWAYS_F32.search(tensor.name)):
            header.refuse(f"stores {tensor.name} as {quant}, but llama.cpp needs F32: {REDO}")
        if tensor.kind in NOT_FOR_WEIGHTS and not tensor.name.endswith(LOOKUP):
            header.refuse(
                f"stores {tensor.name} as {quant}, which is no format for weights: {REDO}"
            )

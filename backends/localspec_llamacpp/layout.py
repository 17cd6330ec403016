"""The bytes of a model by device, from its tensors and from where llama.cpp puts them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from localspec.backend import DeviceNeeds, Needs
from localspec_llamacpp.bindings.log import BufferSize, CacheSize
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.devices import Place, gpus, places

LAYER = re.compile(r"blk\.(\d+)\.")
# Looked up by token, a row at a time: llama.cpp leaves them with the host.
EMBEDDINGS = "token_embd.weight"


class LaidOut(NamedTuple):
    """A model without its weights, as llama.cpp would lay it out."""

    weights: ModelWeights
    tensors: Mapping[str, int]  # bytes by name
    devices: tuple[str, ...]  # of its layers, that of the output last


def account(
    model: LaidOut, sizes: Sequence[BufferSize], caches: Sequence[CacheSize], logits: int
) -> Needs:
    """Count what a model would take, loaded so."""
    held = model.tensors
    embeddings = sum(size for name, size in held.items() if EMBEDDINGS in name)
    output = held.get("output.weight", 0)
    kept = sum(size.bytes for size in sizes if not size.what)
    working = Counter[str]()
    for size in sizes:
        if size.what == "compute":  # of the trunk and of its head
            working["" if is_host(size.where) else size.where] += size.bytes
    on_host = working.pop("", 0)
    on_gpu = max(working.values(), default=0)
    return Needs(
        weights=sum(held.values()),
        kept=kept,
        working=(on_gpu or on_host) + logits,
        layers=model.weights.layers,
        embeddings=embeddings,
        output=output or held.get(EMBEDDINGS, 0),
        tied=not output,
        host=on_host + logits if on_gpu else 0,
        devices=by_device(model, caches, working) if on_gpu else (),
    )


def by_device(
    model: LaidOut, caches: Sequence[CacheSize], working: Mapping[str, int]
) -> tuple[DeviceNeeds, ...]:
    """Count what each GPU would take."""
    weights = Counter[str]()
    for name, size in model.tensors.items():
        weights[device_of(name, model.devices)] += size
    if "output.weight" not in model.tensors:
        weights[model.devices[-1]] += model.tensors.get(EMBEDDINGS, 0)
    kept = Counter[str]()
    for cache in caches:
        for device, layers in Counter(cache.layers).items():
            kept[device] += cache.bytes * layers // len(cache.layers)
    return tuple(
        DeviceNeeds(weights[gpu.name], kept[gpu.name], working.get(gpu.buffers, 0))
        for gpu in gpus(places())
    )


def device_of(tensor: str, devices: Sequence[str]) -> str:
    """Tell where a tensor goes: with its layer, or with the output; empty: to the host."""
    if layer := LAYER.match(tensor):
        return devices[int(layer[1])]
    return devices[-1] if tensor.startswith("output") else ""


def is_host(buffer: str) -> bool:
    """Tell whether a buffer is in the host's memory, which includes memory that a GPU can read."""
    return buffer.startswith("CPU") or buffer.endswith("_Host")

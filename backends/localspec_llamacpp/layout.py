"""The bytes of a model by device, from its tensors and from where llama.cpp puts them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from localspec.interfaces.backend import DeviceNeeds, Needs
from localspec_llamacpp.bindings.log import BufferSize, CacheSize
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.devices import gpus, places

LAYER = re.compile(r"blk\.(\d+)\.")
EXPERTS = re.compile(r"blk\.(\d+)\.ffn_\w+_(?:ch|)exps")
# Looked up by token, a row at a time: llama.cpp leaves them with the host.
EMBEDDINGS, OUTPUT = "token_embd.weight", "output.weight"
HOST_NAME = "CPU"


class LaidOut(NamedTuple):
    """A model without its weights, as llama.cpp would lay it out."""

    weights: ModelWeights
    tensors: Mapping[str, int]  # bytes by name
    devices: tuple[str, ...]  # of its layers, that of the output last
    head: bool  # whether that in its file is loaded, too
    experts_on_host: int = 0  # the number of layers, the first ones, whose experts stay there
    active: float = 1.0  # share of the experts that a token needs
    packing: int = 0  # bytes that weights on the host take beyond those in the file

    def device(self, tensor: str) -> str:
        """Return where a tensor goes: with its layer, with the output, or to the host."""
        if self.on_host(tensor):
            return HOST_NAME
        if layer := LAYER.match(tensor):
            return self.devices[int(layer[1])]
        return self.devices[-1] if tensor.startswith("output") else HOST_NAME

    def on_host(self, tensor: str) -> bool:
        """Return whether it is of experts that stay on the host."""
        layer = EXPERTS.match(tensor)
        return layer is not None and int(layer[1]) < self.experts_on_host

    def in_use(self) -> Iterator[tuple[str, int]]:
        """Yield tensors with their bytes: a head's only with it, embeddings again as output."""
        for name, size in self.tensors.items():
            layer = LAYER.match(name)
            if self.head or not layer or int(layer[1]) < self.weights.layers:
                yield name, size
        if OUTPUT not in self.tensors and self.devices[-1] != HOST_NAME:
            yield OUTPUT, self.tensors.get(EMBEDDINGS, 0)

    def read(self, tensor: str, size: int) -> int:
        """Count the bytes of a tensor that each token reads."""
        if EMBEDDINGS in tensor:  # a row, unless they are the output as well
            tied = OUTPUT not in self.tensors and self.devices[-1] == HOST_NAME
            return size if tied and tensor == EMBEDDINGS else 0
        return int(size * self.active) if EXPERTS.match(tensor) else size


def account(
    model: LaidOut, sizes: Sequence[BufferSize], caches: Sequence[CacheSize], logits: int
) -> Needs:
    """Count what a model would take, loaded so."""
    held = model.tensors
    embeddings = sum(size for name, size in held.items() if EMBEDDINGS in name)
    experts = sum(size for name, size in held.items() if model.on_host(name))
    output = held.get(OUTPUT, 0)
    held_texts = kept(sizes)
    working = Counter[str]()
    for size in sizes:
        if size.kind == "compute":  # of the trunk and of its head
            working["" if is_host(size.where) else size.where] += size.bytes
    on_host = working[""]
    on_gpu = max((size for where, size in working.items() if where), default=0)
    working[""] += logits
    return Needs(
        weights=sum(held.values()) + model.packing,
        cache=held_texts,
        working=(on_gpu or on_host) + logits,
        layers=model.weights.layers,
        embeddings=embeddings + experts,
        output=output or held.get(EMBEDDINGS, 0),
        tied=not output,
        host=on_host + logits if on_gpu else 0,
        devices=by_device(model, caches, held_texts, working) if on_gpu and model.devices else (),
    )


def by_device(
    model: LaidOut, caches: Sequence[CacheSize], held_texts: int, working: Mapping[str, int]
) -> tuple[DeviceNeeds, ...]:
    """Count what the host and each GPU would take."""
    own_gpus = gpus(places())
    weights, read, held = Counter[str](), Counter[str](), Counter[str]()
    for name, size in model.in_use():
        device = model.device(name)
        weights[device] += size
        read[device] += model.read(name, size)
    for cache in caches:
        for device, layers in Counter(cache.layers).items():
            held[device] += cache.bytes * layers // len(cache.layers)
    own = [
        DeviceNeeds(weights[gpu.name], held[gpu.name], working.get(gpu.buffers, 0), read[gpu.name])
        for gpu in own_gpus
    ]
    host = DeviceNeeds(
        weights.total() + model.packing - sum(gpu.weights for gpu in own),
        held_texts - sum(gpu.cache for gpu in own),
        working[""],
        read.total() - sum(gpu.read for gpu in own),
    )
    return (host, *own)


def kept(sizes: Sequence[BufferSize]) -> int:
    """Count the bytes of keys, values and states."""
    return sum(size.bytes for size in sizes if not size.kind)


def is_host(buffer: str) -> bool:
    """Return whether a buffer is in the host's memory, which a GPU may be able to read."""
    return buffer.startswith("CPU") or buffer.endswith("_Host")

"""The formats in which a model's weights are stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import mlx.core as mx
from mlx.nn.layers.base import Module

NOTABLE = 0.1  # the share of all bytes from which on a format counts


@dataclass(frozen=True, slots=True)
class WeightFormat:
    name: str
    group: int = 0  # numbers that share a scale, where that is not in the name
    bits: int = 0  # 0: not quantised


def quantisation(model: Module) -> str:
    """Name the format of most bytes; several, where a good part has another."""
    sizes: Counter[WeightFormat] = Counter()
    for module in model.modules():  # type: ignore[no-untyped-call]
        for value in module.values():
            if isinstance(value, mx.array):
                sizes[stored(module, value)] += value.nbytes
    largest = sizes.most_common(1)[0][0]
    if not largest.bits:
        return largest.name
    least = NOTABLE * sizes.total()
    return joined([form for form, size in sizes.items() if form.bits and size >= least])


def stored(module: Module, value: mx.array) -> WeightFormat:
    bits = getattr(module, "bits", 0)
    if not bits:
        return WeightFormat(str(value.dtype).rpartition(".")[2])
    mode = getattr(module, "mode", "affine")
    if mode != "affine":
        return WeightFormat(mode, 0, bits)
    return WeightFormat(f"{bits}-bit", getattr(module, "group_size", 0), bits)


def joined(formats: list[WeightFormat]) -> str:
    formats.sort(key=lambda form: (form.bits, form.group))
    names = list(dict.fromkeys(form.name for form in formats))
    groups = sorted({form.group for form in formats if form.group})
    text = names[0] if len(formats) == 1 else f"mixed {' and '.join(names)}"
    return text + (f", groups of {' and '.join(map(str, groups))}" if groups else "")

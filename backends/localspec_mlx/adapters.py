"""LoRA adapters: layers around those of a model, each at the scale that a text asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlx.nn.layers.base import Module
from mlx.utils import tree_unflatten
from mlx_lm.utils import load_adapters

from localspec.base.errors import BackendError, ModelFileError, UsageError
from localspec.interfaces.adapter import Adapter, Scales

AROUND = ("linear", "embedding")  # what a layer of an adapter calls the one that it changes


class AdapterLayers:
    """The layers of each adapter, with the scales that its own file gives."""

    def __init__(self, model: Module, adapters: Sequence[Adapter]) -> None:
        self._layers = [list(add_layers(model, adapter)) for adapter in adapters]
        model.eval()
        for adapter, layers in zip(adapters, self._layers, strict=True):
            if not layers and (len(adapters) > 1 or adapter.scale != 1):
                raise UsageError(
                    f"{adapter.path} is no LoRA, but of another kind: MLX takes it alone, and at "
                    "the scale of its own file"
                )

    def adapt(self, scales: Scales) -> None:
        by_number = dict(scales)
        for number, layers in enumerate(self._layers):
            scale = by_number.get(number, 0.0)
            if not layers and scale != 1:
                raise BackendError(f"adapter {number} is no LoRA: its scale stays 1")
            for layer, own in layers:
                layer.scale = own * scale


def add_layers(model: Module, adapter: Adapter) -> Iterator[tuple[Any, float]]:
    """Put the layers of an adapter around those of a model, the ones of earlier adapters within."""
    before = dict(outermost(model))
    exchange(model, {name: base_of(layer) for name, layer in before.items()})
    try:
        load_adapters(model, str(adapter.path))
    except Exception as error:
        raise ModelFileError(f"the adapter {adapter.path} does not fit: {error}") from error
    after = dict(outermost(model))
    exchange(model, {name: layer for name, layer in before.items() if name not in after})
    for name, layer in after.items():
        if name in before:
            layer[around(layer)] = before[name]
        yield layer, layer.scale


def outermost(model: Module) -> Iterator[tuple[str, Any]]:
    """Yield the layers of LoRAs by name; those within others are left out."""
    for name, module in model.named_modules():  # type: ignore[no-untyped-call]
        if "lora_a" in module and "m" not in module and name.rpartition(".")[2] not in AROUND:
            yield name, module


def base_of(layer: Any) -> Any:
    """Return the layer of the model that those of adapters are around."""
    while "lora_a" in layer:
        layer = layer[around(layer)]
    return layer


def around(layer: Any) -> str:
    return next(name for name in AROUND if name in layer)


def exchange(model: Module, layers: dict[str, Any]) -> None:
    if layers:
        model.update_modules(tree_unflatten(list(layers.items())))

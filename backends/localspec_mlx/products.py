"""Products with quantised weights, computed in the way that this device was measured to do fastest.

MLX has kernels for one row of numbers and for many. To verify a draft takes some rows, for which
either may be slow, and on a processor all of them are where the numbers have 16 bits. So each way
is timed, by kind and size of weights and by number of rows, and the choice is kept.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.nn.layers.quantized import QuantizedEmbedding

from localspec_mlx import few_rows

PADDED = 32  # rows, from which on MLX uses the kernels for many
SIDES = (2048, 4096)  # MLX's kernel for a number of rows depends on the longer side: up to these
MAX_UNPACKED = 1 << 24  # numbers of a matrix that may be unpacked: 32 MiB, within what plans leave

OWN = "own"  # MLX's own
KERNEL = "kernel"  # LocalSpec's, on Metal
Kind = tuple[object, ...]  # of weights: all that the speed of a way depends on


class Weights(NamedTuple):
    """A quantised matrix."""

    numbers: mx.array
    scales: mx.array
    biases: mx.array | None
    how: Mapping[str, Any]  # group size, bits, mode

    @property
    def kind(self) -> Kind:
        side = bisect_left(SIDES, max(len(self.numbers), self.inputs))
        return (self.scales.dtype, *self.how.values(), side)

    @property
    def numbers_type(self) -> mx.Dtype:
        """The type of what is multiplied by them."""
        return self.scales.dtype if self.biases is not None else mx.bfloat16

    @property
    def size(self) -> int:
        return self.numbers.size * 32 // int(self.how["bits"])

    @property
    def inputs(self) -> int:
        return self.scales.shape[-1] * int(self.how["group_size"])

    @classmethod
    def of(cls, module: Any) -> Weights:
        how = {"group_size": module.group_size, "bits": module.bits, "mode": module.mode}
        return cls(module["weight"], module["scales"], module.get("biases"), how)


Way = Callable[[mx.array, Weights], mx.array]


def own(x: mx.array, weights: Weights) -> mx.array:
    numbers, scales, biases, how = weights
    return mx.quantized_matmul(x, numbers, scales=scales, biases=biases, transpose=True, **how)


def padded(x: mx.array, weights: Weights) -> mx.array:
    """Multiply by more rows than there are."""
    rows = x.reshape(-1, x.shape[-1])
    products = own(mx.pad(rows, [(0, max(PADDED - len(rows), 0)), (0, 0)]), weights)
    return products[: len(rows)].reshape(*x.shape[:-1], -1)


def wide(x: mx.array, weights: Weights) -> mx.array:
    """Multiply in 32 bits."""
    numbers, scales, biases, how = weights
    biases = None if biases is None else biases.astype(mx.float32)
    product = own(x.astype(mx.float32), Weights(numbers, scales.astype(mx.float32), biases, how))
    return product.astype(x.dtype)


def unpacked(x: mx.array, weights: Weights) -> mx.array:
    """Multiply by the matrix as it was before it was quantised."""
    numbers, scales, biases, how = weights
    return x @ mx.dequantize(numbers, scales, biases, **how).T


def kernel_way(kernel: few_rows.Kernel) -> Way:
    """Multiply few rows by a kernel, and as MLX does what it does not serve."""

    def multiply(x: mx.array, weights: Weights) -> mx.array:
        numbers, scales, biases, how = weights
        if not few_rows.serves(x, numbers, scales, how):
            return own(x, weights)
        return few_rows.multiply(x, (numbers, scales, biases), how, kernel)

    return multiply


WAYS: Mapping[str, Way] = {OWN: own, "padded": padded, "wide": wide, "unpacked": unpacked}


def ways(metal_products: bool) -> Mapping[str, Way]:
    """List the ways to choose from; LocalSpec's kernel is one of them where it is asked for."""
    return {**WAYS, KERNEL: kernel_way(few_rows.compiled())} if metal_products else WAYS


class Ways:
    """The way for each number of rows."""

    def __init__(self, chosen: Mapping[int, str], ways: Mapping[str, Way] = WAYS) -> None:
        self.chosen = chosen
        self._ways = ways
        self._rows = sorted(chosen)

    def multiply(self, x: mx.array, weights: Weights) -> mx.array:
        rows = math.prod(x.shape[:-1])
        at = min(bisect_left(self._rows, rows), len(self._rows) - 1)
        name = self.chosen[self._rows[at]]
        if name == "unpacked" and weights.size > MAX_UNPACKED:
            name = "wide" if "wide" in self.chosen.values() else OWN
        return self._ways[name](x, weights)


def apply(module: Any, ways: Ways) -> None:
    """Let a layer multiply so. It stays what it is: its parts, names and kind."""
    kind = type(module)

    def multiply(self: Any, x: mx.array) -> mx.array:
        product = ways.multiply(x, Weights.of(self))
        return product + self["bias"] if "bias" in self else product

    place = "as_linear" if kind is QuantizedEmbedding else "__call__"
    module.__class__ = type(kind.__name__, (kind,), {place: multiply, "__module__": __name__})

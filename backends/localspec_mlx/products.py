"""Products with quantised weights, computed in the way that this device was measured to do fastest.

MLX has kernels for one row of numbers and for many. To verify a draft takes some rows, for which
either may be slow, and on a processor all of them are where the numbers have 16 bits. So each way
is timed once, by kind of weights and number of rows, when a model is loaded.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QuantizedEmbedding, QuantizedLinear

ROWS = (1, 2, 4, 8, 16, 32)  # at which ways are timed; more rows are computed as the most are
PADDED = 32  # rows, from which on MLX uses the kernels for many
MAX_UNPACKED = 1 << 24  # numbers of a matrix that may be unpacked: 32 MiB, within what plans leave
TIMED = 1 << 20  # numbers of the matrix that is timed, on a processor
TIMES = 3
BETTER = 0.8  # of the time of MLX's own way, at most: near ties must not change what is said
HOPELESS = 10.0  # times the best at fewer rows: not tried at more

OWN = "own"
Clock = Callable[[], float]
Kind = tuple[object, ...]  # of weights: all that the speed of a way depends on, but sizes


class Weights(NamedTuple):
    """A quantised matrix."""

    numbers: mx.array
    scales: mx.array
    biases: mx.array | None
    how: Mapping[str, Any]  # group size, bits, mode

    @property
    def kind(self) -> Kind:
        return (self.scales.dtype, *self.how.values())

    @property
    def numbers_type(self) -> mx.Dtype:
        """The type of what is multiplied by them."""
        return self.scales.dtype if self.biases is not None else mx.bfloat16

    @property
    def size(self) -> int:
        return self.numbers.size * 32 // int(self.how["bits"])

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


WAYS: Mapping[str, Way] = {OWN: own, "padded": padded, "wide": wide, "unpacked": unpacked}


class Ways:
    """The way for each number of rows."""

    def __init__(self, chosen: Mapping[int, str]) -> None:
        self.chosen = chosen
        self._rows = sorted(chosen)

    def multiply(self, x: mx.array, weights: Weights) -> mx.array:
        rows = math.prod(x.shape[:-1])
        at = min(bisect_left(self._rows, rows), len(self._rows) - 1)
        name = self.chosen[self._rows[at]]
        if name == "unpacked" and weights.size > MAX_UNPACKED:
            name = "wide" if "wide" in self.chosen.values() else OWN
        return WAYS[name](x, weights)


def choose(
    seconds: Callable[[str, int], float], rows: Sequence[int], names: Sequence[str]
) -> dict[int, str]:
    """Choose a way for each number of rows by the seconds that each takes."""
    chosen, left = {}, list(names)
    for count in rows:
        seconds_of = {name: seconds(name, count) for name in left}
        best = min(seconds_of, key=seconds_of.__getitem__)
        if seconds_of[best] > BETTER * seconds_of.get(OWN, math.inf):
            best = OWN
        chosen[count] = best
        left = [name for name in left if seconds_of[name] < HOPELESS * seconds_of[best]]
    return chosen


def timed(name: str, rows: int, weights: Weights, clock: Clock) -> float:
    """Time a way, at least of some tries; it never ends where this device has no kernel for it."""
    inputs = weights.scales.shape[-1] * int(weights.how["group_size"])
    x = mx.ones((1, rows, inputs), weights.numbers_type)
    durations = []
    for _ in range(TIMES):
        begun = clock()
        try:
            mx.eval(WAYS[name](x, weights))
        except (RuntimeError, ValueError):
            if name == OWN:
                raise
            return math.inf
        durations.append(clock() - begun)
    return min(durations)


MEASURED: dict[Kind, Ways] = {}  # in this process


def tune(
    model: Module, ways_of: dict[Kind, Ways] = MEASURED, clock: Clock = time.perf_counter
) -> None:
    """Let a model multiply in the fastest ways, which are measured unless they were found."""
    for module in sorted(products(model), key=lambda product: -Weights.of(product).size):
        weights = Weights.of(module)
        if weights.kind not in ways_of:
            ways_of[weights.kind] = measured(weights, clock)
        ways = ways_of[weights.kind]
        if set(ways.chosen.values()) != {OWN}:
            apply(module, ways)


def products(model: Module) -> Iterator[Any]:
    for module in model.modules():  # type: ignore[no-untyped-call]
        if type(module) in (QuantizedLinear, QuantizedEmbedding) and module["weight"].ndim == 2:
            yield module


def measured(weights: Weights, clock: Clock) -> Ways:
    """Time all ways that these weights allow, on a part of them where that takes long."""
    names = list(WAYS)
    if weights.scales.dtype not in (mx.float16, mx.bfloat16):  # or scales that are no numbers
        names.remove("wide")
    if mx.default_device() == mx.cpu:
        part = slice(max(TIMED * len(weights.numbers) // weights.size, 1))
        biases = None if weights.biases is None else weights.biases[part]
        weights = Weights(weights.numbers[part], weights.scales[part], biases, weights.how)
        mx.eval(weights[:2])
    return Ways(choose(partial(timed, weights=weights, clock=clock), ROWS, names))


def apply(module: Any, ways: Ways) -> None:
    """Let a layer multiply so. It stays what it is: its parts, names and kind."""
    kind = type(module)

    def multiply(self: Any, x: mx.array) -> mx.array:
        product = ways.multiply(x, Weights.of(self))
        return product + self["bias"] if "bias" in self else product

    place = "as_linear" if kind is QuantizedEmbedding else "__call__"
    module.__class__ = type(kind.__name__, (kind,), {place: multiply, "__module__": __name__})

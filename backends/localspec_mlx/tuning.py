"""The choice among the ways of multiplying by quantised weights: measured once, and kept."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import QuantizedEmbedding, QuantizedLinear

from localspec.base.system import folders, kept_json, processors
from localspec.base.system.fingerprint import fingerprint
from localspec_mlx import few_rows
from localspec_mlx.products import (
    KERNEL,
    MAX_UNPACKED,
    OWN,
    WAYS,
    Kind,
    Way,
    Ways,
    Weights,
    apply,
    own,
    wide,
)

LOG = logging.getLogger(__name__)

ROWS = (1, 2, 4, 6, 8, 16, 32)  # at which ways are timed; more rows are computed as the most are
TIMED = 1 << 20  # numbers of the matrix that is timed, on a processor
CHAIN = 20  # products that are timed together on a GPU: to wait for one takes longer than one
TIMES = 3
BETTER = 0.8  # of the time of MLX's own way, at most: near ties must not change what is said
HOPELESS = 10.0  # times the best at fewer rows: not tried at more
ALIKE = 0.01  # of the products' size: 16 bits differ by 0.002
TRIED = ((0, 1), (3, 5), (0, 8), (7, 16), (15, 16))  # of the rows that a way is tried with
OTHER_PRODUCTS = "it gives other products than MLX"
OTHER_BITS = "a row's product depends on the rows beside it"

Clock = Callable[[], float]


def choose(
    seconds: Callable[[str, int], float], rows: Sequence[int], names: Sequence[str]
) -> dict[int, str]:
    """Choose a way for each number of rows by the seconds that each takes."""
    chosen, left, took = {}, list(names), {}
    for count in rows:
        seconds_of = took[count] = {name: seconds(name, count) for name in left}
        best = min(seconds_of, key=seconds_of.__getitem__)
        if seconds_of[best] > BETTER * seconds_of.get(OWN, math.inf):
            best = OWN
        chosen[count] = best
        left = [name for name in left if seconds_of[name] < HOPELESS * seconds_of[best]]
    few = {name for count, name in chosen.items() if 1 < count <= few_rows.MOST}
    if few == {KERNEL} and took[1][KERNEL] <= took[1][OWN]:
        chosen[1] = KERNEL  # so that a row has the same bits with drafts and without
    return chosen


def time_products(way: Way, rows: int, matrices: Sequence[Weights], clock: Clock) -> float:
    """Time products, each of which waits for the last; it never ends where there is no kernel.

    Numbers may get too large on the way: that takes no other time.
    """
    x = mx.ones((1, rows, matrices[0].inputs), matrices[0].numbers_type)
    durations = []
    for _ in range(TIMES):
        begun, last = clock(), x
        try:
            for weights in matrices[:-1]:
                last = mx.minimum(x, way(last, weights)[..., :1])
            mx.eval(way(last, matrices[-1]))
        except (RuntimeError, ValueError):
            if way is own:
                raise
            return math.inf
        durations.append(clock() - begun)
    return min(durations)


def fault(way: Way, weights: Weights) -> str:
    """Say what is wrong with a way: its products, or that a row's bits depend on others."""
    shape = (few_rows.MOST, weights.inputs)
    x = mx.random.normal(shape, key=mx.random.key(7)).astype(weights.numbers_type)
    exact = own if weights.biases is None else wide
    try:
        expected, whole = exact(x.astype(mx.float32), weights), way(x, weights)
        errors = mx.square(whole.astype(mx.float32) - expected).mean(axis=1).sqrt()
        if not (errors <= ALIKE * mx.square(expected).mean(axis=1).sqrt()).all().item():
            return OTHER_PRODUCTS
        for begin, end in TRIED:
            if not mx.array_equal(way(x[begin:end], weights), whole[begin:end]).item():
                return OTHER_BITS
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


MEASURED: dict[Kind, Ways] = {}  # in this process


def tune(
    model: Module,
    ways: Mapping[str, Way] = WAYS,
    ways_of: dict[Kind, Ways] = MEASURED,
    clock: Clock = time.perf_counter,
) -> None:
    """Let a model multiply in the fastest ways, which are measured unless they were found."""
    kinds: dict[Kind, list[Any]] = {}
    for module in products(model):
        kinds.setdefault((*Weights.of(module).kind, KERNEL in ways), []).append(module)
    for kind, modules in kinds.items():
        if kind not in ways_of:
            matrices = typical([Weights.of(module) for module in modules])
            ways_of[kind] = chosen_ways(kind, matrices, ways, clock)
        if set(ways_of[kind].chosen.values()) != {OWN}:
            for module in modules:
                apply(module, ways_of[kind])


def products(model: Module) -> Iterator[Any]:
    for module in model.modules():  # type: ignore[no-untyped-call]
        if type(module) in (QuantizedLinear, QuantizedEmbedding) and module["weight"].ndim == 2:
            yield module


def typical(matrices: Sequence[Weights]) -> list[Weights]:
    """Return the matrices of the shape that most numbers are in: layers, not the outputs."""
    of_shape: dict[tuple[int, ...], list[Weights]] = {}
    for weights in matrices:
        of_shape.setdefault(weights.numbers.shape, []).append(weights)
    return max(of_shape.values(), key=lambda alike: len(alike) * alike[0].size)


def chosen_ways(
    kind: Kind, matrices: Sequence[Weights], ways: Mapping[str, Way], clock: Clock
) -> Ways:
    """Return the ways that were chosen before on this device, or measure and keep them."""
    if KERNEL in ways and (wrong := fault(ways[KERNEL], matrices[0])):
        LOG.warning("LocalSpec's kernel is left out for weights like %s: %s", kind[1:-1], wrong)
        ways = {name: way for name, way in ways.items() if name != KERNEL}
    path = kept_at(kind, ways)
    chosen = kept_json.load(path, partial(read_choice, names=ways))
    if chosen is None:
        rivals = processors.RivalWatch().share
        chosen = measure_ways(matrices, ways, clock)
        if rivals() <= processors.CROWDED:
            kept_json.keep(path, {"chosen": chosen})
    return Ways(chosen, ways)


def kept_at(kind: Kind, ways: Mapping[str, Way]) -> Path:
    """Name the file of a choice: by weights, ways, device, and what computes."""
    text = hashlib.sha256(few_rows.TEXT.read_bytes()).hexdigest()
    device = mx.device_info().get("device_name", mx.default_device())
    facts = [str(kind), *ways, str(ROWS), str(device), version("mlx"), text]
    return folders.cache() / "products" / f"{fingerprint([], facts)}.json"


def read_choice(record: Mapping[str, Any], names: Collection[str]) -> dict[int, str]:
    chosen = {int(rows): str(name) for rows, name in record["chosen"].items()}
    if set(chosen) != set(ROWS) or not set(names).issuperset(chosen.values()):
        raise ValueError("other ways, or other numbers of rows")
    return chosen


def measure_ways(
    matrices: Sequence[Weights], ways: Mapping[str, Way], clock: Clock
) -> dict[int, str]:
    """Time all ways that weights allow, on a processor on a part of one matrix."""
    if mx.default_device() == mx.cpu:
        matrices = [part(matrices[0])]
        mx.eval(matrices[0][:2])
    else:
        matrices = list(islice(cycle(matrices), CHAIN))
    lacking = {"unpacked"} if matrices[0].size > MAX_UNPACKED else set()
    if matrices[0].scales.dtype not in (mx.float16, mx.bfloat16):  # or scales that are no numbers
        lacking.add("wide")

    def seconds(name: str, rows: int) -> float:
        if name == KERNEL and rows > few_rows.MOST:
            return math.inf
        return time_products(ways[name], rows, matrices, clock)

    return choose(seconds, ROWS, [name for name in ways if name not in lacking])


def part(weights: Weights) -> Weights:
    """Return the first rows of a matrix."""
    rows = slice(max(TIMED * len(weights.numbers) // weights.size, 1))
    biases = None if weights.biases is None else weights.biases[rows]
    return Weights(weights.numbers[rows], weights.scales[rows], biases, weights.how)

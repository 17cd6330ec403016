"""The ways in which MLX multiplies by quantised weights, and which of them is chosen."""

from __future__ import annotations

import math
import sys
from itertools import count

import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from mlx.nn import Embedding, Linear, Module, QuantizedLinear, quantize

from localspec_mlx.products import OWN, ROWS, WAYS, Ways, Weights, choose, timed, tune

NAMES = (OWN, "padded", "wide", "unpacked")


def test_the_fastest_way_is_chosen_for_each_number_of_rows():
    seconds = {OWN: lambda rows: rows, "padded": lambda rows: 5.0, "wide": lambda rows: rows * 1.1}
    chosen = choose(lambda name, rows: seconds[name](rows), ROWS, list(seconds))
    assert chosen == {1: OWN, 2: OWN, 4: OWN, 8: "padded", 16: "padded", 32: "padded"}


def test_a_way_must_be_clearly_faster_than_mlx_s_own():
    chosen = choose(lambda name, rows: 1.0 if name == OWN else 0.9, (1, 2), NAMES)
    assert chosen == {1: OWN, 2: OWN}


def test_a_way_that_is_hopeless_is_not_timed_again():
    asked = []

    def seconds(name, rows):
        asked.append((name, rows))
        return 19.0 if name == OWN else 1.0

    assert choose(seconds, (1, 2), (OWN, "wide")) == {1: "wide", 2: "wide"}
    assert (OWN, 2) not in asked


def test_a_way_that_the_device_cannot_compute_is_not_taken_and_does_not_fail_the_model():
    numbers, *scales = mx.quantize(mx.ones((8, 64), mx.bfloat16), mode="mxfp4")
    how = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
    assert timed("wide", 1, Weights(numbers, scales[0], None, how), count().__next__) == math.inf
    times = {OWN: 1.0, "wide": math.inf}
    assert set(choose(lambda name, _: times[name], ROWS, list(times)).values()) == {OWN}


class Small(Module):
    def __init__(self, bits, kind):
        super().__init__()
        mx.random.seed(3)
        self.first, self.words = Linear(64, 96), Embedding(40, 64)
        self.set_dtype(kind)
        quantize(self, 32, bits)


@pytest.mark.parametrize("kind", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize("bits", [4, 8])
def test_every_way_gives_the_same_product(bits, kind):
    weights = Weights.of(Small(bits, kind).first)
    for rows in (1, 3, 40):
        x = mx.random.normal((2, rows, 64)).astype(kind)
        exact = x.astype(mx.float32) @ mx.dequantize(*weights[:3], **weights.how).T
        for way in WAYS.values():
            product = way(x, weights)
            assert product.dtype == kind
            assert product.shape == (2, rows, 96)
            assert mx.allclose(product.astype(mx.float32), exact, 0.02, 0.05)


@pytest.mark.parametrize("fast", NAMES)
def test_layers_multiply_in_the_way_that_was_measured_to_be_fast(fast):
    model = Small(4, mx.bfloat16)
    x = mx.random.normal((1, 3, 64)).astype(mx.bfloat16)
    tune(model, {Weights.of(model.first).kind: Ways(dict.fromkeys(ROWS, fast))})
    expected = WAYS[fast](x, Weights.of(model.first)) + model.first.bias
    assert mx.array_equal(model.first(x), expected)
    assert mx.array_equal(model.words.as_linear(x), WAYS[fast](x, Weights.of(model.words)))
    assert isinstance(model.first, QuantizedLinear)
    assert (type(model.first) is QuantizedLinear) == (fast == OWN)


def test_ways_are_measured_once_for_each_kind_of_weights():
    products, clock = {}, count()
    tune(Small(4, mx.bfloat16), products, lambda: next(clock))
    timed = next(clock)
    tune(Small(4, mx.bfloat16), products, lambda: next(clock))
    assert next(clock) == timed + 1
    tune(Small(8, mx.bfloat16), products, lambda: next(clock))
    assert len(products) == 2
    assert all(set(ways.chosen) == set(ROWS) for ways in products.values())

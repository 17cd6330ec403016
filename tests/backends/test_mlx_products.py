"""The ways in which MLX multiplies by quantised weights, and which of them is chosen."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import count

import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from mlx.nn import Embedding, Linear, Module, QuantizedLinear, quantize

from localspec.interfaces.backend import METAL_PRODUCTS, Options
from localspec_mlx import loading, tuning
from localspec_mlx.products import KERNEL, OWN, WAYS, Ways, Weights, own
from localspec_mlx.tuning import ROWS, choose, fault, measure_ways, time_products, tune, typical

NAMES = (OWN, "padded", "wide", "unpacked")
FEW = (2, 4, 6, 8, 16)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home without choices that were kept, of a quiet machine."""
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(tuning.processors, "CROWDED", 2.0)
    return tmp_path


def test_the_fastest_way_is_chosen_for_each_number_of_rows():
    seconds = {OWN: lambda rows: rows, "padded": lambda rows: 5.0, "wide": lambda rows: rows * 1.1}
    chosen = choose(lambda name, rows: seconds[name](rows), ROWS, list(seconds))
    assert chosen == {1: OWN, 2: OWN, 4: OWN, 6: OWN, 8: "padded", 16: "padded", 32: "padded"}


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
    weights = Weights(numbers, scales[0], None, how)
    assert time_products(WAYS["wide"], 1, [weights], count().__next__) == math.inf
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
    kind = (*Weights.of(model.first).kind, False)
    tune(model, ways_of={kind: Ways(dict.fromkeys(ROWS, fast))})
    expected = WAYS[fast](x, Weights.of(model.first)) + model.first.bias
    assert mx.array_equal(model.first(x), expected)
    assert mx.array_equal(model.words.as_linear(x), WAYS[fast](x, Weights.of(model.words)))
    assert isinstance(model.first, QuantizedLinear)
    assert (type(model.first) is QuantizedLinear) == (fast == OWN)


class Ticks:
    """A clock that counts how often it is read."""

    def __init__(self):
        self.read = 0

    def __call__(self):
        self.read += 1
        return self.read


def test_ways_are_measured_once_for_each_kind_of_weights(home):
    ways_of, clock = {}, Ticks()
    tune(Small(4, mx.float32), WAYS, ways_of, clock)
    before = clock.read
    tune(Small(4, mx.float32), WAYS, ways_of, clock)
    assert clock.read == before > 0
    tune(Small(8, mx.float32), WAYS, ways_of, clock)
    assert len(ways_of) == 2
    assert all(set(ways.chosen) == set(ROWS) for ways in ways_of.values())


def test_a_choice_is_kept_for_the_next_process_and_read_with_distrust(home):
    first, again, clock = {}, {}, Ticks()
    tune(Small(4, mx.float32), WAYS, first, clock)
    before = clock.read
    tune(Small(4, mx.float32), WAYS, again, clock)
    assert clock.read == before
    assert [each.chosen for each in again.values()] == [each.chosen for each in first.values()]
    [file] = home.rglob("products/*.json")
    for damaged in ("", "{}", file.read_text().replace(OWN, "mine"), '{"chosen": {"1": "own"}}'):
        file.write_text(damaged)
        tune(Small(4, mx.float32), WAYS, {}, clock)
        assert clock.read > before
        before = clock.read


def test_a_choice_that_was_made_beside_other_programs_is_not_kept(home, monkeypatch):
    monkeypatch.setattr(tuning.processors, "CROWDED", -1.0)
    tune(Small(4, mx.float32), WAYS, {})
    assert not list(home.rglob("products/*.json"))


def weights_of(outputs, inputs, kind=mx.bfloat16):
    numbers, scales, biases = mx.quantize(mx.ones((outputs, inputs), kind), 64, 4)
    return Weights(numbers, scales, biases, {"group_size": 64, "bits": 4, "mode": "affine"})


def test_what_is_timed_is_what_most_of_the_numbers_are_in_and_not_the_output_matrix():
    layers, outputs = [weights_of(256, 128) for _ in range(6)], weights_of(512, 128)
    assert typical([outputs, *layers]) == layers
    assert typical([outputs, layers[0]]) == [outputs]


@pytest.mark.parametrize(
    ("outputs", "inputs", "side"),
    [(2048, 64, 0), (2049, 64, 1), (64, 4096, 1), (4160, 64, 2), (64, 4160, 2)],
)
def test_weights_are_of_one_kind_where_mlx_has_one_kernel(outputs, inputs, side):
    assert weights_of(outputs, inputs).kind[-1] == side


def test_twenty_products_are_timed_in_a_chain_on_a_gpu_and_large_matrices_not_unpacked(
    monkeypatch,
):
    monkeypatch.setattr(tuning.mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(tuning, "MAX_UNPACKED", 64 * 64 - 1)
    seen = []

    def noted(name):
        return lambda x, weights: seen.append((name, x.size // 64, id(weights))) or own(x, weights)

    layers = [weights_of(64, 64, mx.float32) for _ in range(3)]
    measure_ways(layers, {name: noted(name) for name in WAYS}, Ticks())
    assert "unpacked" not in {name for name, *_ in seen}
    of_four = [of for name, rows, of in seen if (name, rows) == (OWN, 4)]
    assert len(of_four) == tuning.TIMES * tuning.CHAIN
    assert set(of_four) == set(map(id, layers))


def kernel_of(seconds):
    """Choose among MLX's own way and a kernel that takes so many seconds of it."""
    ways = {OWN: lambda rows: rows, KERNEL: lambda rows: seconds[rows] * rows}
    return choose(lambda name, rows: ways[name](rows), (1, *FEW, 32), list(ways))


def test_the_kernel_is_chosen_where_it_is_faster_and_then_for_one_row_if_it_costs_no_more():
    fast = {1: 1.0, 32: math.inf, **dict.fromkeys(FEW, 0.7)}
    assert kernel_of(fast) == {1: KERNEL, 32: OWN, **dict.fromkeys(FEW, KERNEL)}
    assert kernel_of({**fast, 1: 1.01})[1] == OWN
    assert kernel_of({**fast, 4: 0.9}) == {1: OWN, 32: OWN, **dict.fromkeys(FEW, KERNEL), 4: OWN}


def shifted(x, weights):
    return own(x, weights) * 1.03


def mixed(x, weights):
    return own(x, weights) + (1e-5 * len(x) * mx.ones(1)).astype(x.dtype)


def missing(x, weights):
    raise RuntimeError("[metal_kernel] No Metal back-end.")


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [
        (own, ""),
        (shifted, "other products"),
        (lambda x, weights: own(x, weights) * math.nan, "other products"),
        (mixed, "depends on the rows beside it"),
        (missing, "No Metal"),
    ],
)
def test_a_kernel_is_used_only_where_it_gives_what_mlx_does_for_each_row(
    kernel, wrong, home, caplog
):
    small = Small(4, mx.float32)
    message = fault(kernel, Weights.of(small.first))
    assert wrong in message
    assert bool(message) == bool(wrong)
    tune(small, {**WAYS, KERNEL: kernel}, {})
    assert [message in line for line in caplog.messages if "kernel" in line] == [True] * bool(wrong)


def test_the_option_says_in_one_line_that_it_has_no_effect_without_metal(caplog):
    options = Options(products=METAL_PRODUCTS)
    if not mx.metal.is_available():
        assert loading.ways_for(options) is WAYS
        assert caplog.messages == ["--products own has no effect here: MLX has no Metal"]
    assert loading.ways_for(replace(options, products="localspec")) is WAYS

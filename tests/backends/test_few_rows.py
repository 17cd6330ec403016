"""Metal's kernel for few rows, compiled as C++ with emulated lanes, beside MLX's own weights."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec_mlx import few_rows
from localspec_mlx.products import Weights, kernel_way, own
from localspec_mlx.tuning import fault

COMPILER = shutil.which("c++")
SOURCE = Path(__file__).with_name("few_rows.cpp")
SHAPES = 63  # of each of eight kinds: 504
EXACT = 1e-6  # of the sum of all that is added, without signs

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C++ compiler")


class Product(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("x", "words", "scales", "biases", "products")),
        *((name, ctypes.c_uint) for name in ("rows", "inputs", "outputs")),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile the kernel for lanes that are emulated."""
    place = tmp_path_factory.mktemp("emulated") / "few_rows.so"
    include = f"-I{few_rows.TEXT.parent}"
    command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", include, SOURCE, "-o", place]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(place))


@pytest.fixture
def emulated(library):
    return Emulated(library)


def quantised(kind, outputs, inputs, seed=1, number=mx.float32):
    mode, bits, group = kind
    draw = np.random.default_rng(seed)
    sizes = 2.0 ** draw.integers(-9, 1, (outputs, 1))  # scales of nvfp4 below 2^-6 are subnormal
    numbers = (draw.standard_normal((outputs, inputs)) * sizes).astype(np.float32)
    words, scales, *biases = mx.quantize(mx.array(numbers).astype(number), group, bits, mode)
    how = {"group_size": group, "bits": bits, "mode": mode}
    return Weights(words, scales, *(biases or [None]), how)


def normal(rows, inputs, seed=2, number=mx.float32):
    numbers = np.random.default_rng(seed).standard_normal((rows, inputs)).astype(np.float32)
    return mx.array(numbers).astype(number)


def in_64_bits(x, weights):
    """Return numbers, and weights as MLX unpacks them, in 64 bits."""
    unpacked = mx.dequantize(*weights[:3], **weights.how, dtype=mx.float32)
    return [np.array(part.astype(mx.float32)).astype(np.float64) for part in (x, unpacked)]


def bits_of(array):
    """Return a copy of an array; numbers that numpy lacks as they lie in memory."""
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)


class Emulated:
    """Runs the compiled text as the kernel that mx.fast.metal_kernel makes of it."""

    def __init__(self, library):
        self._run, self.calls = library.few_rows_product, 0

    def __call__(self, inputs, template, grid, threadgroup, output_shapes, output_dtypes):
        constants = dict(template)
        [shape], [number] = output_shapes, output_dtypes
        assert constants["Number"] == number == inputs[0].dtype
        assert constants["TILES"] == (1 if shape[0] <= 8 else 2)
        assert threadgroup == (few_rows.THREADS, 1, 1)
        assert grid == (-(-shape[1] // few_rows.OUTPUTS) * few_rows.THREADS, 1, 1)
        arrays = [bits_of(each) for each in inputs]
        arrays.append(np.full(shape, 77, arrays[0].dtype))
        sizes = (*shape[:1], inputs[0].shape[-1], *shape[1:])
        call = Product(*(each.ctypes.data for each in arrays), *sizes)
        kind = constants["FORM"], constants["BITS"], constants["GROUP"], int(number == mx.bfloat16)
        assert self._run(ctypes.byref(call), *kind) == 0  # reads and writes that must not be
        self.calls += 1
        product = mx.array(arrays[-1])
        return [product.view(number) if number == mx.bfloat16 else product]


@pytest.mark.parametrize("kind", few_rows.KINDS, ids=str)
def test_the_kernel_multiplies_by_the_weights_that_mlx_unpacks(kind, emulated):
    way, draw = kernel_way(emulated), np.random.default_rng(5)
    for seed in range(SHAPES):
        rows, outputs = int(draw.integers(1, 17)), int(draw.integers(1, 50))
        step = max(kind[2], few_rows.BLOCK)
        inputs = step * int(draw.integers(1, 320 // step + 2))
        weights, x = quantised(kind, outputs, inputs, seed), normal(rows, inputs, seed)
        numbers, unpacked = in_64_bits(x, weights)
        errors = np.abs(np.array(way(x, weights)) - numbers @ unpacked.T)
        assert (errors <= EXACT * (abs(numbers) @ abs(unpacked.T))).all(), (rows, outputs, inputs)
    assert emulated.calls == SHAPES


def test_numbers_of_16_bits_are_multiplied_as_they_are_and_rounded_once(emulated):
    weights = quantised(("affine", 4, 64), 40, 256, number=mx.bfloat16)
    x = normal(11, 256, number=mx.bfloat16)
    numbers, scales, biases, how = weights
    in_32 = Weights(numbers, scales.astype(mx.float32), biases.astype(mx.float32), how)
    wide, unpacked = in_64_bits(x, in_32)
    product, expected = kernel_way(emulated)(x, weights), wide @ unpacked.T
    assert product.dtype == mx.bfloat16
    errors = np.abs(np.array(product.astype(mx.float32)) - expected)
    assert (errors <= 2**-8 * abs(expected) + EXACT * (abs(wide) @ abs(unpacked.T))).all()


@pytest.mark.parametrize("kind", few_rows.KINDS, ids=str)
def test_a_row_has_the_same_bits_alone_and_beside_fifteen_others(kind, emulated):
    way, weights, x = kernel_way(emulated), quantised(kind, 37, 640), normal(16, 640)
    whole = np.array(way(x, weights))
    for count in (1, 2, 5, 8, 9, 15):
        for first in (0, 16 - count):
            part = np.array(way(x[first : first + count], weights))
            assert np.array_equal(part, whole[first : first + count]), (count, first)
    others = mx.concatenate([mx.full((9, 640), np.nan), x[9:10], mx.full((6, 640), np.inf)])
    assert np.array_equal(np.array(way(others, weights))[9], whole[9])


def test_texts_side_by_side_keep_their_shape(emulated):
    weights, x = quantised(("affine", 8, 32), 24, 64), normal(6, 64)
    product = kernel_way(emulated)(x.reshape(2, 3, 64), weights)
    assert product.shape == (2, 3, 24)
    assert mx.array_equal(product.reshape(6, 24), kernel_way(emulated)(x, weights))


@pytest.mark.parametrize(
    ("rows", "inputs", "kind", "number"),
    [
        (17, 64, ("affine", 4, 64), mx.float32),
        (4, 48, ("nvfp4", 4, 16), mx.float32),
        (4, 64, ("affine", 2, 64), mx.float32),
        (4, 64, ("affine", 4, 64), mx.float16),  # scales have 32 bits
    ],
)
def test_what_the_kernel_does_not_serve_is_multiplied_by_mlx(rows, inputs, kind, number, emulated):
    weights, x = quantised(kind, 24, inputs), normal(rows, inputs, number=number)
    assert mx.array_equal(kernel_way(emulated)(x, weights), own(x, weights))
    assert emulated.calls == 0


def test_the_text_and_its_caller_agree():
    text = few_rows.TEXT.read_text(encoding="utf-8")
    sizes = {"PARTS": few_rows.PARTS, "BLOCK": few_rows.BLOCK, "HEIGHT": few_rows.OUTPUTS // 8}
    forms = {name.upper(): number for name, number in few_rows.FORMS.items()}
    for name, number in (sizes | forms).items():
        assert f" {name} = {number};" in text


@pytest.mark.skipif(mx.metal.is_available(), reason="scripts/bench metal tries it there")
def test_without_metal_the_kernel_is_made_and_cannot_run():
    way = kernel_way(few_rows.compiled())
    assert "No Metal" in fault(way, quantised(("affine", 4, 64), 24, 64))

"""Products with quantised matrices as llama.cpp calls them: right, and the same in any batch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_int64, c_size_t, c_void_p

import numpy as np
import pytest

from localspec_llamacpp import ggml
from localspec_llamacpp.bindings import products
from localspec_llamacpp.headers.rounding import PACKED
from tests.ggml_graph import CPU, Graph, Numbers, graph, require_products

KINDS = tuple(PACKED)
EMBEDDINGS = b"token_embd.weight"
NOISE = 0.02  # of a product's size: activations have 8 bits


@pytest.fixture(autouse=True)
def needed():
    require_products()


def buffers() -> c_void_p:
    """Find the type of buffers of the library that computes, which may be loaded twice."""
    registry = ggml.pointer("ggml_backend_cpu_reg", origin=CPU)
    name = c_char_p(products.LIST)
    address = ggml.pointer("ggml_backend_reg_get_proc_address", registry, name)
    types = ctypes.CFUNCTYPE(ctypes.POINTER(c_void_p), c_void_p)(address.value)(None)
    named = {ggml.text("ggml_backend_buft_name", each): each for each in products.listed(types)}
    return named[products.BUFFERS]


@contextmanager
def packed(kind: str, numbers: Numbers, name: bytes = b"matrix") -> Iterator[c_void_p]:
    """Hold a matrix, or one for each expert, as a model's weights lie."""
    rows, length = numbers.size // numbers.shape[-1], numbers.shape[-1]
    number = c_int(ggml.type_numbers()[kind])
    size = ggml.call("ggml_row_size", c_size_t, number, c_int64(length)) * rows
    data = ctypes.create_string_buffer(size)
    source = np.ascontiguousarray(numbers).ctypes.data_as(c_void_p)
    sizes = c_int64(0), c_int64(rows), c_int64(length)
    ggml.call("ggml_quantize_chunk", c_size_t, number, source, data, *sizes, None)
    context = ggml.pointer("ggml_init", ggml.ContextForm(1 << 14, None, True))
    shape = [c_int64(each) for each in (1, *numbers.shape)[:-4:-1]]
    tensor = ggml.pointer("ggml_new_tensor_3d", context, number, *shape)
    ggml.call("ggml_set_name", c_void_p, tensor, c_char_p(name))
    held = ggml.pointer("ggml_backend_alloc_ctx_tensors_from_buft", context, buffers())
    try:
        ggml.call("ggml_backend_tensor_set", None, tensor, data, c_size_t(0), c_size_t(size))
        yield tensor
    finally:
        ggml.call("ggml_backend_buffer_free", None, held)
        ggml.call("ggml_free", None, context)


@contextmanager
def chosen(panels: np.ndarray) -> Iterator[None]:
    """Choose the panels of an output matrix that this thread computes.

    Where the library is loaded twice, by its path and by llama.cpp, one packs and either computes.
    """
    choose, place = "localspec_products_choose", panels.ctypes.data_as(c_void_p)
    ggml.call(choose, None, place, c_int(len(panels)), origin=CPU)
    try:
        with products.computing_only(panels):
            yield
    finally:
        ggml.call(choose, None, None, c_int(0), origin=CPU)


def normal(*shape: int, seed: int = 1) -> Numbers:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def stored(kind: str, numbers: Numbers) -> Numbers:
    """Return a matrix as its type holds it."""
    with graph() as work:
        return work.numbers(work.tensor(kind, numbers)).reshape(numbers.shape)


def multiplied(matrix: c_void_p, rows: Numbers, outputs: int, threads: int = 1) -> Numbers:
    with graph() as work:
        made = work.operation("ggml_mul_mat", matrix, work.tensor("F32", rows))
        return work.run(made, threads).reshape(*rows.shape[:-1], outputs)


def by_experts(
    work: Graph, matrix: c_void_p, rows: Numbers, chosen: np.ndarray, threads: int
) -> Numbers:
    operands = matrix, work.tensor("F32", rows), work.tensor("I32", chosen)
    return work.run(work.operation("ggml_mul_mat_id", *operands), threads)


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_matrix_is_multiplied_as_its_type_holds_it(kind):
    matrix, rows = normal(96, 512), normal(5, 512, seed=2)
    with packed(kind, matrix) as weights:
        product = multiplied(weights, rows, 96, threads=2)
    expected = rows.astype(np.float64) @ stored(kind, matrix).astype(np.float64).T
    assert np.abs(product - expected).max() < NOISE * np.abs(expected).max()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_the_same_bits_in_any_batch_and_by_any_number_of_threads(kind):
    matrix, rows = normal(160, 768), normal(70, 768, seed=2)
    with packed(kind, matrix) as weights:
        whole = multiplied(weights, rows, 160, threads=2)
        for count in (1, 2, 3, 5, 6, 7, 8, 13, 64):
            for first in (0, 70 - count):
                part = multiplied(weights, rows[first : first + count], 160, threads=count % 8 + 1)
                assert np.array_equal(part, whole[first : first + count]), (count, first)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K", "Q8_0", "MXFP4"])
def test_experts_multiply_the_rows_that_chose_them(kind):
    matrices, rows = normal(5, 48, 256), normal(9, 1, 256, seed=2)
    chosen = np.random.default_rng(3).permuted(np.tile(np.arange(5), (9, 1)), axis=1)[:, :2]
    chosen = chosen.astype(np.int32)
    with packed(kind, matrices) as weights, graph() as work:
        product = by_experts(work, weights, rows, chosen, 2).reshape(9, 2, 48)
        of_one = by_experts(work, weights, rows[4:5], chosen[4:5], 1).reshape(2, 48)
    assert np.array_equal(of_one, product[4])
    held = stored(kind, matrices).astype(np.float64)
    expected = np.einsum("tuok,tk->tuo", held[chosen], rows[:, 0].astype(np.float64))
    assert np.abs(product - expected).max() < NOISE * np.abs(expected).max()


def test_each_chosen_expert_may_have_a_row_of_its_own():
    matrices, rows = normal(4, 16, 256), normal(6, 3, 256, seed=2)
    chosen = np.array([[at % 4, (at + 1) % 4, (at + 2) % 4] for at in range(6)], np.int32)
    with packed("Q8_0", matrices) as weights, graph() as work:
        product = by_experts(work, weights, rows, chosen, 3).reshape(6, 3, 16)
    held = stored("Q8_0", matrices).astype(np.float64)
    expected = np.einsum("tuok,tuk->tuo", held[chosen], rows.astype(np.float64))
    assert np.abs(product - expected).max() < NOISE * np.abs(expected).max()


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_looked_up_where_they_are_packed(kind):
    matrix, tokens = normal(64, 512), np.array([3, 0, 63, 17, 3], np.int32)
    with packed(kind, matrix, EMBEDDINGS) as weights, graph() as work:
        made = work.operation("ggml_get_rows", weights, work.tensor("I32", tokens))
        product = work.run(made, 2).reshape(5, 512)
    expected = stored(kind, matrix)[tokens]
    assert np.allclose(product, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [b"output.weight", EMBEDDINGS])
def test_an_output_matrix_is_computed_as_far_as_it_was_chosen(name):
    matrix, rows = normal(160, 256), normal(9, 256, seed=2)
    panels = np.array([1, 0, 0, 1, 1, 0, 1, 0, 0, 1], np.uint8)
    with packed("Q8_0", matrix, name) as weights:
        whole = multiplied(weights, rows, 160, threads=2)
        with chosen(panels):
            part = multiplied(weights, rows, 160, threads=3)
        again = multiplied(weights, rows, 160, threads=2)
    kept = panels.repeat(16).astype(bool)
    assert np.array_equal(part[:, kept], whole[:, kept])
    assert (part[:, ~kept] == np.float32(-1e20)).all()
    assert np.array_equal(again, whole)


@pytest.mark.parametrize(("name", "panels"), [(b"blk.0.ffn_up.weight", 10), (b"output.weight", 9)])
def test_a_choice_leaves_other_matrices_as_they_are(name, panels):
    matrix, rows = normal(160, 256), normal(2, 256, seed=2)
    with packed("Q8_0", matrix, name) as weights:
        whole = multiplied(weights, rows, 160, threads=2)
        with chosen(np.zeros(panels, np.uint8)):
            assert np.array_equal(multiplied(weights, rows, 160, threads=2), whole)


def test_a_choice_is_that_of_its_thread():
    matrix, rows = normal(160, 256), normal(2, 256, seed=2)
    with packed("Q8_0", matrix, b"output.weight") as weights, ThreadPoolExecutor(1) as other:
        whole = multiplied(weights, rows, 160)
        with chosen(np.zeros(10, np.uint8)):
            assert np.array_equal(other.submit(multiplied, weights, rows, 160).result(), whole)


def test_a_number_that_is_none_stays_in_its_row():
    matrix, rows = normal(32, 256), normal(3, 256, seed=2)
    with packed("Q4_K", matrix) as weights:
        clean = multiplied(weights, rows, 32)
        rows[1, 7] = np.nan
        product = multiplied(weights, rows, 32)
    assert np.isnan(product[1]).all()
    assert np.array_equal(product[[0, 2]], clean[[0, 2]])

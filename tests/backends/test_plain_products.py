"""Products with F32, F16 and BF16 on a processor: right, and the same for one row as for many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ggml_graph import Numbers, graph, require_products

KINDS = ("F32", "F16", "BF16")
# Numbers in a row: halves of vectors, whole ones, more than are added up in one go.
SIZES = (8, 64, 72, 576, 2080, 4360, 4384)
LARGEST = {"F32": 5e-6, "F16": 5e-6, "BF16": 2e-2}  # BF16: processors with products of pairs


@pytest.fixture(autouse=True)
def products():
    require_products()


def normal(*shape: int, seed: int = 1) -> Numbers:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(kind: str, matrix: Numbers, rows: Numbers, threads: int = 1) -> tuple[Numbers, Numbers]:
    """Return the products [..., row, output], and the matrix as its type holds it."""
    with graph(128) as work:
        weights = work.tensor(kind, matrix)
        made = work.operation("ggml_mul_mat", weights, work.tensor("F32", rows))
        numbers = work.run(made, threads).reshape(*rows.shape[:-1], matrix.shape[-2])
        return numbers, work.numbers(weights).reshape(matrix.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outputs", [1, 6, 64, 203])
def test_a_product_is_as_exact_as_its_types_allow(kind, size, outputs):
    matrix, rows = normal(outputs, size) / np.float32(np.sqrt(size)), normal(33, size, seed=2)
    computed, stored = product(kind, matrix, rows, threads=2)
    error = computed - rows.astype(np.float64) @ stored.astype(np.float64).T
    assert np.abs(error).max() < LARGEST[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_a_product_is_the_same_to_the_bit_for_any_number_of_rows_and_threads(kind, size):
    matrix, rows = normal(75, size), normal(130, size, seed=2)
    whole = product(kind, matrix, rows, threads=2)[0]
    for count in (1, 2, 3, 5, 6, 7, 8, 16, 64, 130):
        for first in {0, 60, 130 - count}:
            part = rows[first : first + count]
            for threads in (1, 3, 8):
                computed = product(kind, matrix, part, threads)[0]
                assert np.array_equal(computed, whole[first : first + count]), (
                    count,
                    first,
                    threads,
                )


@pytest.mark.parametrize("kind", KINDS)
def test_several_matrices_are_shared_by_the_heads_of_a_batch(kind):
    matrix, rows = normal(2, 2, 50, 64), normal(4, 6, 3, 64, seed=2)
    computed, stored = product(kind, matrix, rows, threads=2)
    for third in range(4):
        for second in range(6):
            one = stored[third // 2, second // 3].astype(np.float64)
            error = computed[third, second] - rows[third, second].astype(np.float64) @ one.T
            assert np.abs(error).max() < 20 * LARGEST[kind]
            alone = product(kind, matrix[third // 2, second // 3], rows[third, second, :1])[0]
            assert np.array_equal(alone, computed[third, second, :1])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_lie_apart(kind):
    matrix, rows = normal(3, 40, 64), normal(1, 5, 3, 64, seed=2)
    with graph() as work:
        apart = work.permuted(work.tensor("F32", rows))
        made = work.operation("ggml_mul_mat", work.tensor(kind, matrix), apart)
        output = work.run(made, 2).reshape(3, 5, 40)
    together = product(kind, matrix, np.ascontiguousarray(rows[0].swapaxes(0, 1)))[0]
    assert np.array_equal(output, together)
